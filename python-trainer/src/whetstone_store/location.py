# SPDX-License-Identifier: Apache-2.0
"""Which object store a process uses: one option, and the variables that every S3 client knows. Needs no botocore."""

from __future__ import annotations

import argparse
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whetstone_models.errors import ModelError

if TYPE_CHECKING:
    from whetstone_store.store import ObjectStore

_URL = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?P<prefix>(/[A-Za-z0-9._-]+)*)/?")
STYLES = ("path", "virtual")
FIELD = "object-store"


@dataclass(frozen=True)
class StoreLocation:
    """A bucket, and what the names of all objects in it begin with: "" or "team/run/"."""

    bucket: str
    prefix: str
    # "path": http://host/bucket/key; "virtual": http://bucket.host/key; "": the former at an endpoint of one's own.
    style: str = ""

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


def parse_location(url: str, style: str = "") -> StoreLocation:
    """Raises ModelError for a URL that is not "s3://<bucket>" or "s3://<bucket>/<prefix>"."""
    match = _URL.fullmatch(url)
    if match is None or ".." in match["prefix"].split("/"):
        reason = "must be s3://<bucket> or s3://<bucket>/<prefix>, of letters, digits and ._- in between"
        raise ModelError(FIELD, f"{reason}, got {url!r}")
    prefix = match["prefix"].strip("/")
    return StoreLocation(match["bucket"], f"{prefix}/" if prefix else "", style)


def add_store_options(parser: argparse.ArgumentParser) -> None:
    """Flags win over WHETSTONE_* variables."""
    environment = os.environ
    parser.add_argument(
        "--object-store",
        metavar="URL",
        default=environment.get("WHETSTONE_OBJECT_STORE", ""),
        help="s3://bucket/prefix, for jobs with weights.transport objectStore and large episodes; endpoint, region, "
        "credentials and authorities by AWS_ENDPOINT_URL_S3, AWS_REGION, AWS_ACCESS_KEY_ID and its like, AWS_CA_BUNDLE",
    )
    parser.add_argument(
        "--object-store-style",
        choices=STYLES,
        default=environment.get("WHETSTONE_OBJECT_STORE_STYLE") or None,
        help="of its URLs: http://host/bucket/key or http://bucket.host/key. Default: path where there is an endpoint, "
        "else virtual",
    )


def store_of(arguments: argparse.Namespace) -> ObjectStore | None:
    """None: there is none. Raises ModelError for options that cannot be used."""
    if not arguments.object_store:
        return None
    location = parse_location(arguments.object_store, arguments.object_store_style or "")
    from whetstone_store.store import ObjectStore

    return ObjectStore(location)
