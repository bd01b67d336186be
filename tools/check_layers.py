#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that every #include keeps to the layers: its own folder and those that its layer may see.

  check_layers.py [--self-test] [root]

Also: each header of a third party is included by one file, of the folder that it belongs to; a .c
file includes its own header first; project headers are included by path; a .c file is named in its
folder's meson.build, so that every file is built.
"""
import collections
import os
import re
import sys
import tempfile

CORE = ["base", "codec", "options", "gpu", "observe", "config", "infer", "cache", "sched", "sched_plugin",
        "sequence", "pipeline", "backend", "store", "repo", "server"]

# Layers below the protocols of the front end.
FRONT = ["base", "codec", "gpu", "net", "core_api", "auth", "shm", "trace", "call"]

# Folder under src/ -> folders it may include. "public" is include/triton/core.
LAYERS = {
    "base": [],
    "codec": ["base"],
    "options": ["base"],
    "gpu": ["base"],
    "observe": ["base"],
    "config": ["base", "codec"],
    "infer": ["base", "gpu", "codec", "config", "observe"],
    "cache": ["base", "gpu", "config", "infer", "observe", "public"],
    "sched": ["base", "config", "infer", "observe"],
    "sched_plugin": ["base", "config", "infer", "observe", "sched", "public"],
    "sequence": ["base", "gpu", "config", "infer", "observe", "sched"],
    "pipeline": ["base", "gpu", "config", "infer", "observe"],
    "backend": ["base", "gpu", "codec", "config", "infer", "observe", "public"],
    "store": ["base", "codec"],
    "repo": ["base", "codec", "gpu", "config", "infer", "cache", "sched", "sched_plugin", "sequence",
             "pipeline", "backend", "store", "observe", "public"],
    "server": CORE,
    "api": CORE + ["public"],
    "net": ["base"],
    "core_api": ["base", "codec", "public"],
    "auth": ["base"],
    "shm": ["base", "gpu"],
    "trace": ["base", "codec", "net", "core_api", "public"],
    "call": ["base", "codec", "net", "core_api", "auth", "shm", "trace", "public"],
    "web": ["base", "codec", "core_api", "public"],
    "openai": ["base", "codec", "core_api", "auth", "call", "public"],
    "http": FRONT + ["openai", "web", "public"],
    "grpc": FRONT + ["public"],
    "load": ["base", "codec", "options", "gpu", "net", "public"],
    "tune": ["base", "codec", "options", "net", "load", "public"],
    "cli": FRONT + ["options", "openai", "web", "http", "grpc", "load", "tune", "public"],
}

# The structs that protobuf-c generates -> folders.
GENERATED = {
    "model_config.pb-c.h": ["config", "grpc"],
    "grpc_service.pb-c.h": ["grpc", "load"],
    "health.pb-c.h": ["grpc"],
    "reflection.pb-c.h": ["grpc"],
}

# Beginning of a third party's header -> the folder it belongs to (or several folders, which are
# separate libraries), and whether only one file of that folder may include it.
THIRD_PARTY = {
    "uv.h": ("src/net", True),
    "openssl/err.h": (("src/base", "src/net"), True),
    "openssl/evp.h": (("src/base", "repoagents/checksum"), True),
    "openssl/pem.h": (("src/base", "src/net"), True),
    "openssl/": ("src/net", True),
    "llhttp": ("src/http", True),
    "nghttp2/": (("src/grpc", "src/load"), True),  # the server's sessions; the decoder of header blocks
    "zlib.h": ("src/codec", True),
    "curl/": ("src/base", True),
    "expat.h": ("src/store", True),
    "protobuf-c/": ("src/codec", False),  # its readers need the descriptors
    "onnxruntime_c_api.h": ("backends/onnxruntime", True),
    "Python.h": ("backends/python", True),
}

SYSTEM = set("""
assert.h complex.h ctype.h errno.h fenv.h float.h inttypes.h iso646.h limits.h locale.h math.h
setjmp.h signal.h stdalign.h stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h
stdnoreturn.h string.h tgmath.h threads.h time.h uchar.h wchar.h wctype.h
dirent.h dlfcn.h endian.h fcntl.h fnmatch.h ftw.h getopt.h glob.h grp.h ifaddrs.h libgen.h link.h malloc.h
netdb.h poll.h pthread.h pwd.h regex.h sched.h semaphore.h spawn.h strings.h syslog.h termios.h
ucontext.h unistd.h utime.h wordexp.h execinfo.h
cpuid.h emmintrin.h immintrin.h arm_neon.h
""".split())
SYSTEM_FOLDERS = ("sys/", "linux/", "netinet/", "net/", "arpa/", "asm/")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.M)
COMMENT = re.compile(r"/\*.*?\*/", re.S)


def sources(root):
    for top in ("src", "backends", "caches", "repoagents", "schedulers", "include"):
        for folder, folders, files in os.walk(os.path.join(root, top)):
            folders.sort()
            for name in sorted(files):
                if name.endswith((".c", ".h")):
                    yield os.path.relpath(os.path.join(folder, name), root)


def includes(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        text = COMMENT.sub(" ", file.read())
    return [(match.group(1) == "<", match.group(2)) for match in INCLUDE.finditer(text)]


def check_project(path, target):
    """Returns the problem of a project include, or None."""
    parts = path.split("/")
    if target in GENERATED:
        if parts[0] == "src" and parts[1] in GENERATED[target]:
            return None
        return f"includes the generated {target}: that is for {' and '.join(GENERATED[target])}"
    if "/" not in target:
        return f'"{target}" is not a path such as "sched/batch.h"'
    folder = "public" if target.startswith("triton/core/") else target.split("/")[0]
    if parts[0] == "include":
        return None if folder == "public" else f'a public header includes "{target}"'
    if parts[0] in ("backends", "caches"):
        allowed = {"public", "kit", parts[1]}
    elif parts[0] in ("repoagents", "schedulers"):
        allowed = {"public", parts[1]}
    else:
        if parts[1] not in LAYERS:
            return f"src/{parts[1]} is not in the table of layers"
        allowed = {parts[1], *LAYERS[parts[1]]}
    if folder in allowed:
        return None
    return f'{"/".join(parts[:2])} may not include "{target}"'


def third_party(target):
    for start in THIRD_PARTY:
        if target.startswith(start):
            return start
    return None


def owners(start):
    folders = THIRD_PARTY[start][0]
    return (folders,) if isinstance(folders, str) else folders


def check_system(path, target, users):
    start = third_party(target)
    if start is None:
        if target in SYSTEM or target.startswith(SYSTEM_FOLDERS):
            return None
        return f"<{target}> is in no table: a third party's header belongs to one folder"
    users[target].add(path)
    folders = owners(start)
    if not path.startswith(tuple(folder + "/" for folder in folders)):
        return f"<{target}> belongs to {' and '.join(folders)}"
    return None


def own_header(root, path):
    if path.startswith("src/") and path.endswith(".c"):
        header = path[len("src/"):-2] + ".h"
        if os.path.exists(os.path.join(root, "src", header)):
            return header
    return None


def unbuilt(root):
    """Yields the .c files that the meson.build of their folder does not name."""
    for top in ("src", "backends", "caches", "repoagents", "schedulers", "tests/unit"):
        for folder, _, files in os.walk(os.path.join(root, top)):
            listed = ""
            if "meson.build" in files:
                with open(os.path.join(folder, "meson.build"), encoding="utf-8") as file:
                    listed = file.read()
            for name in sorted(files):
                if name.endswith(".c") and f"'{name}'" not in listed:
                    path = os.path.relpath(os.path.join(folder, name), root)
                    yield f"{path}: is in no meson.build"


def check(root):
    problems = list(unbuilt(root))
    users = collections.defaultdict(set)
    n_files = 0
    for path in sources(root):
        n_files += 1
        found = includes(root, path)
        for is_system, target in found:
            problem = (check_system(path, target, users) if is_system
                       else check_project(path, target))
            if problem:
                problems.append(f"{path}: {problem}")
        header = own_header(root, path)
        if header and (not found or found[0][1] != header):
            problems.append(f'{path}: its own header "{header}" is not included first')
    for target, paths in sorted(users.items()):
        for folder in owners(third_party(target)):
            inside = sorted(path for path in paths if path.startswith(folder + "/"))
            if THIRD_PARTY[third_party(target)][1] and len(inside) > 1:
                problems.append(f"<{target}> is included by several files: {', '.join(inside)}")
    return n_files, problems


def self_test():
    """Each of these must be refused, and the last one accepted."""
    good = {"src/base/a.h": "", "src/net/uv.h": "", "src/sched/q.h": '#include "base/a.h"'}
    cases = [
        ("upwards", {"src/base/a.c": '#include "base/a.h"\n#include "sched/q.h"'}),
        ("across the line", {"src/http/h.c": '#include "sched/q.h"'}),
        ("public in the core", {"src/infer/q.c":
                                '#include "infer/q.h"\n#include "triton/core/tritonserver.h"'}),
        ("backend", {"backends/x/x.c": '#include "base/a.h"'}),
        ("agent", {"repoagents/x/x.c": '#include "kit/errors.h"'}),
        ("two files of an agent", {"repoagents/checksum/a.c": "#include <openssl/evp.h>",
                                   "repoagents/checksum/b.c": "#include <openssl/evp.h>",
                                   "src/base/c.c": "#include <openssl/evp.h>"}),
        ("public header", {"include/triton/core/x.h": '#include "base/a.h"'}),
        ("no path", {"src/base/b.c": '#include "a.h"'}),
        ("unknown folder", {"src/new/n.c": '#include "base/a.h"'}),
        ("generated", {"src/http/h.c": '#include "model_config.pb-c.h"'}),
        ("foreign folder", {"src/http/h.c": "#include <uv.h>"}),
        ("two files", {"src/net/a.c": "#include <uv.h>", "src/net/b.c": "# include <uv.h>"}),
        ("unknown third party", {"src/net/a.c": "#include <event2/event.h>"}),
        ("own header", {"src/base/a.c": '#include <stdio.h>\n#include "base/a.h"'}),
        ("unbuilt", {"src/base/unbuilt.c": '#include "base/a.h"'}),
    ]
    failures = []
    for name, files in cases + [("nothing wrong", {"src/net/a.c": '#include <uv.h>\n'
                                 '/* #include "sched/q.h" */\n#include "base/a.h"'})]:
        with tempfile.TemporaryDirectory() as root:
            names = [os.path.basename(path) for path in files if "unbuilt" not in path]
            listing = {os.path.join(os.path.dirname(path), "meson.build"):
                       f"x = files({', '.join(repr(name) for name in names)})" for path in files}
            for path, text in {**good, **files, **listing}.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text + "\n")
            problems = check(root)[1]
        expected = 0 if name == "nothing wrong" else 1
        if len(problems) != expected:
            failures.append(f"self-test '{name}': {len(problems)} problems: {problems}")
    print("\n".join(failures) or f"{len(cases) + 1} fixtures as expected")
    return 1 if failures else 0


def main():
    arguments = sys.argv[1:]
    if "--self-test" in arguments:
        return self_test()
    root = arguments[0] if arguments else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    n_files, problems = check(root)
    print("\n".join(problems))
    print(f"{n_files} files, {len(problems)} problems")
    return 1 if problems or n_files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
