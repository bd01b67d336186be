# SPDX-License-Identifier: BSD-3-Clause
"""What a container image is made of, as SPDX 2.3 in JSON; for image_root.py.

A Debian package has its name, version, purl, the SHA-256 of its .deb file, and as its declared licence all that its
copyright file names for files that are not Debian's own. A licence without a name in SPDX's list is a LicenseRef with
the text of the copyright file.
"""
import dataclasses
import datetime
import hashlib
import json
import re
import urllib.parse

NAMESPACE = "https://neso-server.example.org/spdx"
# Debian's short names, in lower case, and those of SPDX.
SPDX_NAMES = {
    "apache-2.0": "Apache-2.0", "apache-2": "Apache-2.0", "artistic": "Artistic-1.0-Perl",
    "bsd-2-clause": "BSD-2-Clause", "bsd-3-clause": "BSD-3-Clause", "bsd-4-clause-uc": "BSD-4-Clause-UC",
    "bsl-1.0": "BSL-1.0", "cc-by-4.0": "CC-BY-4.0", "cc0-1.0": "CC0-1.0", "curl": "curl", "expat": "MIT",
    "fsfullr": "FSFULLR", "gpl-1+": "GPL-1.0-or-later", "gpl-2": "GPL-2.0-only", "gpl-2+": "GPL-2.0-or-later",
    "gpl-3": "GPL-3.0-only", "gpl-3+": "GPL-3.0-or-later", "isc": "ISC", "lgpl-2": "LGPL-2.0-only",
    "lgpl-2+": "LGPL-2.0-or-later", "lgpl-2.0+": "LGPL-2.0-or-later", "lgpl-2.1": "LGPL-2.1-only",
    "lgpl-2.1+": "LGPL-2.1-or-later", "lgpl-3": "LGPL-3.0-only", "lgpl-3+": "LGPL-3.0-or-later", "mit": "MIT",
    "mpl-1.1": "MPL-1.1", "mpl-2.0": "MPL-2.0", "oldap-2.8": "OLDAP-2.8", "openssl": "OpenSSL", "psf-2": "PSF-2.0",
    "x11": "X11", "zlib": "Zlib",
}


@dataclasses.dataclass
class Component:
    name: str
    version: str
    licence: str  # an expression of SPDX
    sha256: str
    purl: str = ""
    supplier: str = "Organization: The Neso authors"
    texts: dict = dataclasses.field(default_factory=dict)  # LicenseRef-...: text


def slug(text):
    return re.sub("[^A-Za-z0-9.-]+", "-", text).strip("-")


# ---- Debian's copyright files --------------------------------------------------------------------------------------

def paragraphs(text):
    """Each a dict of its fields, with the lines that follow a field."""
    for part in re.split(r"\n[ \t]*\n", text):
        fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*(?:\n[ \t].*)*)", part, re.M))
        if fields:
            yield fields


def named_licences(text):
    """Of a copyright file in Debian's machine-readable form: {text of License: its licence text}; else nothing."""
    if not re.match(r"\s*Format:.*copyright-format", text):
        return {}, set()
    texts, used = {}, set()
    for fields in paragraphs(text):
        name, _, body = fields.get("License", "").partition("\n")
        name = name.strip()
        if body and name:
            texts[name] = re.sub(r"^ \.?$", "", body, flags=re.M)
        if "Files" in fields and name and not fields["Files"].startswith("debian/"):
            used.add(name)
    return texts, used


def expression(name, package, texts):
    """SPDX's expression of a name as `GPL-2+ or Artistic`; and {LicenseRef: text} for what SPDX has no name for."""
    references = {}

    def one(part):
        known = SPDX_NAMES.get(part.lower())
        if known:
            return known
        reference = f"LicenseRef-{slug(package)}-{slug(part.replace('+', '-or-later'))}"
        references[reference] = texts.get(part) or texts.get(name) or part
        return reference

    alternatives = [" AND ".join(one(part.strip()) for part in re.split(r",? and |, ", way) if part.strip())
                    for way in re.split(r",? or ", name)]
    joined = " OR ".join(f"({way})" if " AND " in way and len(alternatives) > 1 else way for way in alternatives)
    return (f"({joined})" if len(alternatives) > 1 else joined), references


def licence_of(package, text):
    texts, used = named_licences(text)
    if not used:
        reference = f"LicenseRef-{slug(package)}-copyright"
        return reference, {reference: text}
    parts, references = set(), {}
    for name in used:
        part, more = expression(name, package, texts)
        parts |= {part} if part.startswith("(") else set(part.split(" AND "))
        references |= more
    return " AND ".join(sorted(parts)), references


def debian_component(fields, sha256, copyright_text):
    """`fields`: its control file."""
    def field(key):
        return re.search(f"^{key}: (.*)$", fields, re.M)[1]

    name, version = field("Package"), field("Version")
    licence, texts = licence_of(name, copyright_text)
    purl = f"pkg:deb/debian/{name}@{urllib.parse.quote(version, safe='')}?arch={field('Architecture')}"
    return Component(name, version, licence, sha256, purl, "Organization: Debian", texts)


# ---- the document ---------------------------------------------------------------------------------------------------

def package_of(component, identity):
    row = {"SPDXID": identity, "name": component.name, "versionInfo": component.version,
           "supplier": component.supplier, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
           "licenseConcluded": "NOASSERTION", "licenseDeclared": component.licence, "copyrightText": "NOASSERTION"}
    if component.sha256:
        row["checksums"] = [{"algorithm": "SHA256", "checksumValue": component.sha256}]
    if component.purl:
        row["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                "referenceLocator": component.purl}]
    return row


def write(image, version, epoch, components):
    """The document of an image that contains these."""
    whole = Component(f"{image}-image", version, "NOASSERTION", "")
    identities = [f"SPDXRef-Package-{slug(component.name)}" for component in components]
    packages = [package_of(whole, "SPDXRef-Image")] + [
        package_of(component, identity) for component, identity in zip(components, identities)]
    packages[0]["primaryPackagePurpose"] = "CONTAINER"
    texts = {key: text for component in components for key, text in component.texts.items()}
    digest = hashlib.sha256(json.dumps(packages, sort_keys=True).encode()).hexdigest()
    created = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc)
    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{image}-{version}", "documentNamespace": f"{NAMESPACE}/{image}-{slug(version)}-{digest}",
        "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
                         "creators": ["Tool: neso-image_sbom", "Organization: The Neso authors"]},
        "packages": packages,
        "hasExtractedLicensingInfos": [{"licenseId": key, "extractedText": texts[key]} for key in sorted(texts)],
        "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
                           "relatedSpdxElement": "SPDXRef-Image"}] + [
            {"spdxElementId": "SPDXRef-Image", "relationshipType": "CONTAINS", "relatedSpdxElement": identity}
            for identity in identities],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
