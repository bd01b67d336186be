# SPDX-License-Identifier: BSD-3-Clause
"""Unpacks the archive of a Python environment: unpack_environment.py <archive> <folder>

Nothing is written outside of the folder: members with absolute paths, with "..", or below a link that
the archive has made are refused, and so are links that lead out and anything but files, folders and
links. Errors are written to standard output, for the server.
"""
import os
import sys
import tarfile


def refuse(text):
    sys.stdout.write(text)
    sys.exit(1)


def check_path(path):
    if os.path.isabs(path):
        refuse("Path is absolute: %s" % path)
    if ".." in path.split("/"):
        refuse("Path contains '..': %s" % path)


def check_link(member):
    """A link must lead to a place within the archive."""
    target = member.linkname
    if member.islnk():
        check_path(target)
        return
    if os.path.isabs(target):
        return  # conda environments have links to the system; nothing is written through them
    inside = os.path.normpath(os.path.join(os.path.dirname(member.name), target))
    if inside.split("/")[0] == "..":
        refuse("Path contains '..': %s -> %s" % (member.name, target))


def check_parents(folder, path):
    """No part of the path may be a link: it would be written through."""
    at = folder
    for part in os.path.dirname(path).split("/"):
        at = os.path.join(at, part)
        if os.path.islink(at):
            refuse("Path leads through a link: %s" % path)


def unpack(archive, folder):
    folder = os.path.realpath(folder)
    archive.extraction_filter = lambda member, path: member  # the checks follow below
    for member in archive:
        name = member.name[2:] if member.name.startswith("./") else member.name
        member.name = name.rstrip("/")
        if member.name in ("", "."):
            continue
        check_path(name)
        check_parents(folder, member.name)
        if member.issym() or member.islnk():
            check_link(member)
        elif not (member.isfile() or member.isdir()):
            refuse("%s is neither a file nor a folder" % name)
        target = os.path.join(folder, member.name)
        if os.path.islink(target):
            os.unlink(target)
        member.mode = (member.mode or 0) & 0o755 | 0o600
        archive.extract(member, folder, set_attrs=not member.issym(), numeric_owner=True)


def main():
    try:
        with tarfile.open(sys.argv[1]) as archive:
            unpack(archive, sys.argv[2])
    except (OSError, tarfile.TarError, EOFError) as error:
        refuse(str(error))


main()
