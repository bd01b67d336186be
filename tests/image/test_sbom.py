# SPDX-License-Identifier: BSD-3-Clause
"""The list of what an image is made of: its form is SPDX 2.3, and it says what is in the image."""
import datetime
import hashlib
import re
import sys

import pytest

from image_archive import BUILD, NAMES, ROOT, Image

sys.path.insert(0, str(ROOT / "tools"))

import image_sbom  # noqa: E402

IDENTITY = re.compile(r"SPDXRef-[A-Za-z0-9.-]+")
LICENCE = re.compile(r"LicenseRef-[A-Za-z0-9.-]+")
OF_SPDX = set(image_sbom.SPDX_NAMES.values()) | {"BSD-3-Clause", "MIT"}


@pytest.fixture(scope="module", params=NAMES)
def image(request):
    return Image(request.param)


@pytest.fixture(scope="module")
def sbom(image):
    return image.sbom()


def status_fields(image):
    """{package: its version} as the image itself says it to scanners."""
    rows = {}
    for layer in range(len(image.layers)):
        rows |= image.read_all(r"var/lib/dpkg/status\.d/", layer)
    return {re.search(r"^Package: (.*)$", text, re.M)[1]: re.search(r"^Version: (.*)$", text, re.M)[1]
            for text in rows.values()}


def check_expression(text, references):
    """SPDX's grammar without WITH: names, AND, OR, brackets."""
    words = re.findall(r"[()]|[^()\s]+", text)
    depth, wants_name = 0, True
    for word in words:
        if word == "(":
            assert wants_name, text
            depth += 1
        elif word == ")":
            assert not wants_name and depth > 0, text
            depth -= 1
        elif word in ("AND", "OR"):
            assert not wants_name, text
            wants_name = True
        else:
            assert wants_name, text
            assert word in OF_SPDX or word in references, (word, text)
            wants_name = False
    assert depth == 0 and not wants_name, text


def test_document(sbom):
    assert sbom["spdxVersion"] == "SPDX-2.3" and sbom["dataLicense"] == "CC0-1.0"
    assert sbom["SPDXID"] == "SPDXRef-DOCUMENT" and sbom["name"]
    assert re.fullmatch(r"https://[^\s#]+", sbom["documentNamespace"])
    datetime.datetime.strptime(sbom["creationInfo"]["created"], "%Y-%m-%dT%H:%M:%SZ")
    assert all(re.match("(Tool|Organization|Person): .", who) for who in sbom["creationInfo"]["creators"])
    assert set(sbom) == {"spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo",
                         "packages", "hasExtractedLicensingInfos", "relationships"}


def test_packages(sbom):
    identities = [package["SPDXID"] for package in sbom["packages"]]
    assert len(identities) == len(set(identities))
    for package in sbom["packages"]:
        assert IDENTITY.fullmatch(package["SPDXID"])
        assert package["name"] and package["versionInfo"] and package["downloadLocation"] == "NOASSERTION"
        assert package["filesAnalyzed"] is False and package["copyrightText"] == "NOASSERTION"
        for checksum in package.get("checksums", []):
            assert checksum["algorithm"] == "SHA256"
            assert re.fullmatch("[0-9a-f]{64}", checksum["checksumValue"])
        for reference in package.get("externalRefs", []):
            assert reference["referenceCategory"] == "PACKAGE-MANAGER" and reference["referenceType"] == "purl"
            assert re.fullmatch(r"pkg:deb/debian/[a-z0-9.+-]+@[^\s@?]+\?arch=(all|[a-z0-9]+)",
                                reference["referenceLocator"])


def test_licences(sbom):
    references = {info["licenseId"]: info["extractedText"] for info in sbom["hasExtractedLicensingInfos"]}
    used = set()
    for package in sbom["packages"][1:]:
        check_expression(package["licenseDeclared"], references)
        used |= set(LICENCE.findall(package["licenseDeclared"]))
    assert used == set(references)
    assert all(LICENCE.fullmatch(name) and text.strip() for name, text in references.items())
    declared = {package["name"]: package["licenseDeclared"] for package in sbom["packages"]}
    assert declared["neso"] == "BSD-3-Clause" and declared["uplot"] == "MIT"
    assert declared["zlib1g"] == "Zlib" and "Apache-2.0" in declared.get("libssl3", declared.get("libssl3t64"))


def test_relationships(sbom):
    identities = {package["SPDXID"] for package in sbom["packages"]}
    rows = [(row["spdxElementId"], row["relationshipType"], row["relatedSpdxElement"])
            for row in sbom["relationships"]]
    assert rows[0] == ("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Image")
    assert {row[:2] for row in rows[1:]} == {("SPDXRef-Image", "CONTAINS")}
    assert {row[2] for row in rows[1:]} == identities - {"SPDXRef-Image"}


def test_says_what_is_in_the_image(image, sbom):
    listed = {package["name"]: package["versionInfo"] for package in sbom["packages"] if "externalRefs" in package}
    assert listed == status_fields(image)
    assert ("python3-numpy" in listed) == (image.name == "neso-python")
    own = {package["name"] for package in sbom["packages"]} - set(listed) - {f"{image.name}-image"}
    assert {"neso", "uplot"} <= own <= {"neso", "uplot", "llhttp", "onnxruntime"}


def test_checksums_are_those_of_the_packages(image, sbom):
    files = {path.name.split("_")[0]: path for path in (BUILD / "debs").glob("*.deb")}
    by_name = {package["name"]: package for package in sbom["packages"]}
    for name in ("libc6", "zlib1g", "ca-certificates"):
        assert by_name[name]["checksums"][0]["checksumValue"] == hashlib.sha256(files[name].read_bytes()).hexdigest()
    program = image.read_bytes("usr/local/bin/neso")
    assert by_name["neso"]["checksums"][0]["checksumValue"] == hashlib.sha256(program).hexdigest()


@pytest.mark.parametrize("name, wanted, references", [
    ("Expat", "MIT", set()),
    ("GPL-2+ or Artistic", "(GPL-2.0-or-later OR Artistic-1.0-Perl)", set()),
    ("ISC and Expat", "ISC AND MIT", set()),
    ("GPL-2+ with Libtool exception", "LicenseRef-lib-GPL-2-or-later-with-Libtool-exception",
     {"LicenseRef-lib-GPL-2-or-later-with-Libtool-exception"}),
    ("LGPL-3+ or ISC, and Zlib", "(LGPL-3.0-or-later OR (ISC AND Zlib))", set()),
])
def test_expressions(name, wanted, references):
    text, found = image_sbom.expression(name, "lib", {})
    assert (text, set(found)) == (wanted, references)
    check_expression(text, references)


def test_machine_readable_copyright():
    text = ("Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\n"
            "Files: *\nCopyright: someone\nLicense: Zlib\n\n"
            "Files: contrib/*\nCopyright: other\nLicense: own\n The own text.\n .\n Its end.\n\n"
            "Files: debian/*\nCopyright: packager\nLicense: GPL-2+\n")
    licence, texts = image_sbom.licence_of("lib++", text)
    assert licence == "LicenseRef-lib-own AND Zlib"
    assert texts == {"LicenseRef-lib-own": " The own text.\n\n Its end."}


def test_other_copyright_is_kept_whole():
    licence, texts = image_sbom.licence_of("old", "This package was debianized by hand.\n")
    assert licence == "LicenseRef-old-copyright"
    assert texts == {"LicenseRef-old-copyright": "This package was debianized by hand.\n"}
