#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The files of the container images: tools/image_root.py --stage=DIR --debs=DIR --out=DIR --version=V --epoch=SECONDS

An installation (stage_install of tools/release.sh) becomes two folders of OUT, each the content of a layer:

  base     /usr/local with the server and its backends, the shared libraries that these need, certificates of
           authorities, the licences of everything
  python   what is added for models in Python: Debian's interpreter and NumPy

and OUT/neso.spdx.json and OUT/neso-python.spdx.json, which say what the images are made of (image_sbom.py).

All but the installation comes from Debian packages, which apt downloads into DEBS (again only when there is a newer
one) and which are unpacked, not installed. A package of libraries gives the files that are needed alone. Which package
has a library is looked up among the installed ones of this machine: it built the programs, so it has all of them.

Equal input gives equal files: the order, the modes and the times are fixed, the owner is up to who copies them.
"""
import argparse
import dataclasses
import hashlib
import io
import os
import pathlib
import posixpath
import re
import shutil
import stat
import subprocess
import sys
import tarfile

import image_sbom

MERGED = ("bin", "lib", "lib64", "sbin")  # links to the same names in /usr
RUNTIME = ("bin", "lib/libtritonserver.so", "lib/neso/backends/identity", "lib/neso/backends/onnxruntime",
           "lib/neso/backends/python", "lib/neso/caches", "lib/neso/repoagents", "lib/neso/neso_scheduler_trial",
           "share/doc/neso")
OPENED = "libcurl.so.4"  # at run time, by name
UNUSED = re.compile(r"usr/(share/(?!doc/[^/]+/copyright$|python)|include/|bin/(?!python3))|"
                    r".*/(tests|pydoc_data|lib2to3)/|.*\.(a|pyi|h)$|"
                    r"usr/lib/python3\.[0-9]+/dist-packages/|"  # copies of what is in usr/lib/python3
                    r"etc/(apt|dpkg|alternatives)/")
USER = 65532  # of no person; the number that images without a distribution use for it
PASSWD = f"root:x:0:0:root:/root:/sbin/nologin\nneso:x:{USER}:{USER}:neso:/tmp:/sbin/nologin\n"
GROUP = f"root:x:0:\nneso:x:{USER}:\n"
NSSWITCH = "passwd: files\ngroup: files\nhosts: files dns\n"
AUTHORITIES = "etc/ssl/certs/ca-certificates.crt"


def run(*command, **named):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, **named).stdout


def merged(path):
    """The path in a system whose /lib is a link to /usr/lib, without a slash in front."""
    path = posixpath.normpath(path.lstrip("/"))
    return f"usr/{path}" if path.split("/")[0] in MERGED else path


# ---- Debian packages ----------------------------------------------------------------------------------------------

@dataclasses.dataclass
class Package:
    name: str
    version: str
    fields: str      # of its control file
    sha256: str
    archive: tarfile.TarFile
    members: dict    # path: member; folders are left out

    @classmethod
    def read(cls, path):
        fields = run("dpkg-deb", "-f", path).decode()
        archive = tarfile.open(fileobj=io.BytesIO(run("dpkg-deb", "--fsys-tarfile", path)))
        members = {merged(member.name): member for member in archive.getmembers() if not member.isdir()}
        return cls(re.search("^Package: (.*)$", fields, re.M)[1], re.search("^Version: (.*)$", fields, re.M)[1],
                   fields, hashlib.sha256(path.read_bytes()).hexdigest(), archive, members)

    def target(self, path):
        """What the member links to, or None."""
        member = self.members[path]
        if member.issym():
            return merged(posixpath.join("/", posixpath.dirname(member.name.removeprefix(".")), member.linkname))
        return merged(member.linkname) if member.islnk() else None

    def content(self, path):
        return self.archive.extractfile(self.members[path]).read()


class Pool:
    """The packages that were read, and where each of their files is."""

    def __init__(self, folder):
        self.folder = folder
        self.packages = {}
        self.files = {}

    def add(self, names):
        names = sorted(set(names) - set(self.packages))
        if not names:
            return
        for path in self._download(names):
            package = Package.read(path)
            self.packages[package.name] = package
            self.files.update((member, package) for member in package.members)

    def _download(self, names):
        """apt's candidate of each; what is in the folder already is not fetched again."""
        self.folder.mkdir(parents=True, exist_ok=True)
        apt = ("apt-get", "-q", "-o", "APT::Sandbox::User=root")
        text = run(*apt, "--print-uris", "download", *names).decode()
        wanted = re.findall(r"^'[^']+' (\S+) \d+ SHA256:(\w+)$", text, re.M)
        if len(wanted) != len(names):
            sys.exit(f"image_root: apt does not know one of: {' '.join(names)}")
        paths = [self.folder / name for name, _ in wanted]
        missing = [path.name.split("_")[0] for path, (_, sha256) in zip(paths, wanted)
                   if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != sha256]
        for name in missing:
            for older in self.folder.glob(f"{name}_*.deb"):
                older.unlink()
        if missing:
            subprocess.run([*apt, "download", *missing], cwd=self.folder, check=True, stdout=subprocess.DEVNULL)
        return paths

    def find_library(self, soname):
        """Path of the file or link with this name; the one that is the least deep."""
        found = [path for path in self.files if path.startswith("usr/lib") and path.endswith(f"/{soname}")]
        return min(found, key=lambda path: (path.count("/"), path), default=None)

    def resolve(self, path):
        """The package and the path of the file behind links."""
        while path in self.files:
            package = self.files[path]
            target = package.target(path)
            if target is None:
                return package, path
            path = target
        sys.exit(f"image_root: {path} is in none of: {' '.join(sorted(self.packages))}")


def owner_of_library(soname):
    """The installed package that has it."""
    for line in run("ldconfig", "-p").decode().splitlines():
        words = line.split()
        if words and words[0] == soname:
            path = os.path.realpath(words[-1])
            for name in (path, path.removeprefix("/usr")):
                ended = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True, check=False)
                owners = [row.split(":")[0] for row in ended.stdout.splitlines() if not row.startswith("diversion ")]
                if owners:
                    return owners[0]
    sys.exit(f"image_root: no installed package has {soname}")


def opened_libraries(stage):
    """What the programs open by name: libcurl, and ONNX Runtime where it is a package."""
    if (stage / "lib" / "neso" / "backends" / "onnxruntime" / "libonnxruntime.so.1").exists():
        return {OPENED}
    installed = re.findall(r"^\s*(libonnxruntime\.so\.\S+) ", run("ldconfig", "-p").decode(), re.M)
    return {OPENED, installed[0]}


def elf_needs(path):
    text = run("readelf", "-dW", path).decode()
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", text))


def elf_interpreter(path):
    found = re.search(r"program interpreter: (.*)\]", run("readelf", "-lW", path).decode())
    return found and found[1]


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


# ---- a folder that becomes a layer --------------------------------------------------------------------------------

class Root:
    """`below` is the folder of the layer under it: what that one has is not written again."""

    def __init__(self, folder, pool, below=None):
        self.folder = folder
        self.pool = pool
        self.below = below
        self.used = set()  # names of packages
        folder.mkdir(parents=True)

    def has(self, path):
        return os.path.lexists(self.folder / path) or (self.below is not None and self.below.has(path))

    def _place(self, path):
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def add_file(self, path, content, mode=0o644):
        place = self._place(path)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
        place.chmod(mode)

    def add_link(self, path, target):
        self._place(path).symlink_to(target)

    def add_folder(self, path, mode=0o755):
        (self.folder / path).mkdir(parents=True, exist_ok=True)
        (self.folder / path).chmod(mode)

    def copy_tree(self, source, to):
        """A file, link or folder of the installation."""
        if source.is_dir() and not source.is_symlink():
            shutil.copytree(source, self.folder / to, symlinks=True)
        else:
            shutil.copy2(source, self._place(to), follow_symlinks=False)

    def add_member(self, path):
        """A file of a package with the links that lead to it."""
        package = self.pool.files[path]
        self.used.add(package.name)
        if self.has(path):
            return
        member = package.members[path]
        if member.issym():
            target = package.target(path)
            self.add_link(path, posixpath.relpath(target, posixpath.dirname(path)))
            if target in self.pool.files:
                self.add_member(target)
        else:
            real, real_path = self.pool.resolve(path)
            self.add_file(path, real.content(real_path), member.mode & 0o755 if member.isreg() else 0o755)

    def add_library(self, soname):
        """Its file, and a link to it where the loader looks, for a library in a folder of its own."""
        path = self.pool.find_library(soname)
        self.add_member(path)
        package, file = self.pool.resolve(path)
        self.used.add(package.name)
        folder = re.match(r"usr/lib(64|/[^/]+-linux-[^/]+)?", path)[0]
        if posixpath.dirname(path) != folder and not self.has(f"{folder}/{soname}"):
            self.add_link(f"{folder}/{soname}", posixpath.relpath(path, folder))
        return self.folder / file if (self.folder / file).exists() else self.below.folder / file

    def add_libraries(self, programs, more=()):
        """All shared libraries that these files need, directly or not; and the loader."""
        own = {path.name for path in programs}
        wanted = {soname for path in programs for soname in elf_needs(path)} | set(more)
        interpreters = {elf_interpreter(path) for path in programs} - {None}
        done = set()
        while wanted - done - own:
            todo = sorted(wanted - done - own)
            self.pool.add(owner_of_library(soname) for soname in todo if not self.pool.find_library(soname))
            for soname in todo:
                wanted |= elf_needs(self.add_library(soname))
            done |= set(todo)
        for path in interpreters:
            self.add_member(merged(path))

    def elf_files(self):
        return sorted(path for path in self.folder.rglob("*")
                      if path.is_file() and not path.is_symlink() and is_elf(path))

    def add_descriptions(self):
        """Of each package that gave a file: its licence, and its control file, where scanners look for it."""
        for name in sorted(self.used):
            package = self.pool.packages[name]
            for path, content in ((f"var/lib/dpkg/status.d/{name}", package.fields),
                                  (f"usr/share/doc/{name}/copyright", read_copyright(self.pool, package))):
                if not self.has(path):
                    self.add_file(path, content)

    def finish(self, epoch):
        for path in [self.folder, *self.folder.rglob("*")]:
            if not path.is_symlink():
                mode = stat.S_IMODE(path.stat().st_mode)
                path.chmod(mode if mode & 0o1000 else mode & 0o755 | 0o444 | (0o111 if path.is_dir() else 0))
            os.utime(path, (epoch, epoch), follow_symlinks=False)


def read_copyright(pool, package):
    """Its folder in /usr/share/doc may be a link to that of another package of the same source."""
    path = f"usr/share/doc/{package.name}"
    if path in package.members:
        other = posixpath.basename(package.target(path))
        pool.add([other])
        return read_copyright(pool, pool.packages[other])
    return package.content(f"{path}/copyright")


# ---- the two layers -----------------------------------------------------------------------------------------------

def add_system(root, pool):
    """What programs expect of a system beside its libraries."""
    pool.add(["base-files", "ca-certificates"])
    for path, package in sorted(pool.files.items()):
        if package.name == "base-files" and re.match(
                "usr/lib/os-release|etc/(os-release|debian_version)$|usr/share/common-licenses/", path):
            root.add_member(path)
    certificates = pool.packages["ca-certificates"]
    root.used.add("ca-certificates")
    root.add_file(AUTHORITIES, b"".join(
        certificates.content(path) for path in sorted(certificates.members) if path.endswith(".crt")))
    root.add_link("usr/lib/ssl/cert.pem", f"/{AUTHORITIES}")
    root.add_file("etc/passwd", PASSWD)
    root.add_file("etc/group", GROUP)
    root.add_file("etc/nsswitch.conf", NSSWITCH)
    for name in ("dev", "proc", "sys", "run", "models", "usr/bin", "usr/sbin"):
        root.add_folder(name)
    root.add_folder("tmp", 0o1777)


def make_base(folder, pool, stage):
    root = Root(folder, pool)
    for name in RUNTIME:
        root.copy_tree(stage / name, f"usr/local/{name}")
    root.add_libraries(root.elf_files(), opened_libraries(stage))
    add_system(root, pool)
    for name in MERGED:
        if (folder / "usr" / name).is_dir():
            root.add_link(name, f"usr/{name}")
    root.add_descriptions()
    return root


def compile_python(root, version):
    """Files of byte code that are valid whatever times the sources have: the root file system may be read-only."""
    if sys.version_info[:2] != tuple(map(int, version.split("."))):
        sys.exit(f"image_root: runs under Python {sys.version_info[0]}.{sys.version_info[1]}, not {version}")
    folders = sorted(str(path) for path in root.folder.glob("usr/lib/python3*"))
    run(sys.executable, "-m", "compileall", "-q", "-j1", "--invalidation-mode=unchecked-hash", "-s", root.folder,
        "-p", "/", *folders, env=dict(os.environ, PYTHONHASHSEED="0"))


def leads_nowhere(pool, path):
    """NumPy's folders for compilers are links into a package that the image does not have."""
    target = pool.files[path].target(path) if pool.files[path].members[path].issym() else None
    return target is not None and not any(other == target or other.startswith(target + "/") for other in pool.files)


def make_python(folder, pool, base):
    root = Root(folder, pool, base)
    pool.add(["python3-minimal", "python3-numpy", "libblas3", "liblapack3"])
    version = re.search(r"python(3\.\d+)-minimal", pool.packages["python3-minimal"].fields)[1]
    whole = ["python3-minimal", f"python{version}-minimal", f"libpython{version}-minimal",
             f"libpython{version}-stdlib", "python3-numpy"]
    pool.add(whole)
    for path, package in sorted(pool.files.items()):
        if package.name in whole and not UNUSED.match(path) and not leads_nowhere(pool, path):
            root.add_member(path)
    root.add_libraries(root.elf_files())
    root.add_descriptions()
    compile_python(root, version)
    return root


# ---- what is inside ------------------------------------------------------------------------------------------------

def own_components(stage, version):
    """What is no Debian package: Neso, and what it was built with."""
    project = pathlib.Path(__file__).resolve().parent.parent
    deps = project / ".deps"

    def sha256(path):
        return hashlib.sha256(path.read_bytes()).hexdigest()

    rows = [image_sbom.Component("neso", version, "BSD-3-Clause", sha256(stage / "bin" / "neso")),
            image_sbom.Component("uplot", (deps / "uplot" / "version").read_text().strip(), "MIT",
                                 sha256(deps / "uplot" / "uPlot.iife.min.js"))]
    runtime = stage / "lib" / "neso" / "backends" / "onnxruntime" / "libonnxruntime.so.1"
    if runtime.exists():
        rows.append(image_sbom.Component("onnxruntime", (deps / "onnxruntime" / "version").read_text().strip(), "MIT",
                                         sha256(runtime)))
    if not any(soname.startswith("libllhttp") for soname in elf_needs(stage / "bin" / "neso")):
        llhttp = run("dpkg-query", "-W", "-f=${Version}", "node-llhttp").decode()
        rows.append(image_sbom.Component("llhttp", llhttp, "MIT", sha256(pathlib.Path("/usr/share/llhttp/llhttp.c"))))
    return rows


def debian_components(pool, names):
    return [image_sbom.debian_component(pool.packages[name].fields, pool.packages[name].sha256,
                                        read_copyright(pool, pool.packages[name]).decode(errors="replace"))
            for name in sorted(names)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for name in ("stage", "debs", "out"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--epoch", type=int, required=True)
    options = parser.parse_args()
    pool = Pool(options.debs.resolve())
    base = make_base(options.out / "base", pool, options.stage)
    python = make_python(options.out / "python", pool, base)
    own = own_components(options.stage, options.version)
    for image, names in {"neso": base.used, "neso-python": base.used | python.used}.items():
        text = image_sbom.write(image, options.version, options.epoch, own + debian_components(pool, names))
        (options.out / f"{image}.spdx.json").write_text(text, "utf-8")
    for root in (base, python):
        root.finish(options.epoch)


if __name__ == "__main__":
    main()
