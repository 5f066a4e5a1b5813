# SPDX-License-Identifier: Apache-2.0
"""An object store that speaks S3, as far as trainer and engines need it.

botocore finds endpoint, region and credentials as every S3 client does, signs, and adds checksums that the store
verifies.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import ssl
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from whetstone_models.errors import ModelError
from whetstone_models.reading import OnBytes, unheard
from whetstone_store.errors import StoreError, store_error
from whetstone_store.location import FIELD, StoreLocation
from whetstone_store.transfer import QUIET_S, TransferError
from whetstone_store.upload import upload_file

_CONNECT_S, _ANSWER_S = 5, 30
_ATTEMPTS = 3
# A signed URL is used at once; clocks may differ by so much and more.
_SIGNED_S = 900
_ABSENT = ("404", "NoSuchKey", "NotFound")
_FAILURES = (BotoCoreError, ClientError)


class StoredObject(NamedTuple):
    """One of a list."""

    name: str
    size: int
    written_at: datetime


class ObjectStore:
    """The objects below one prefix of a bucket. Names are relative to it: "runs/<uid>/weights/v3/manifest.json"."""

    def __init__(self, location: StoreLocation) -> None:
        """Raises ModelError where there are no credentials, or an endpoint that is no URL. Asks nobody yet."""
        self._bucket, self._prefix, self.url = location.bucket, location.prefix, location.url
        session = botocore.session.get_session()
        region = os.environ.get("AWS_REGION") or session.get_config_variable("region") or "us-east-1"
        has_endpoint = bool(os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"))
        config = Config(
            connect_timeout=_CONNECT_S,
            read_timeout=_ANSWER_S,
            retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
            signature_version="s3v4",
            s3={"addressing_style": location.style or ("path" if has_endpoint else "virtual")},
        )
        try:
            if session.get_credentials() is None:
                raise ModelError(FIELD, f"{self.url}: no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
            self._client: Any = session.create_client("s3", region_name=region, config=config)
        except (BotoCoreError, ValueError) as error:
            raise ModelError(FIELD, f"{self.url}: {error}") from error
        self._authorities: str | None = session.get_config_variable("ca_bundle")

    def put(self, name: str, data: bytes) -> None:
        """A small object. Raises StoreError."""
        with self._asking(name):
            self._client.put_object(**self._place(name), Body=data)

    def read(self, name: str) -> bytes | None:
        """A small object; None: there is none. Raises StoreError."""
        with contextlib.suppress(_Absent), self._asking(name):
            return self._client.get_object(**self._place(name))["Body"].read()
        return None

    def size(self, name: str) -> int | None:
        """Bytes of an object; None: there is none. Raises StoreError."""
        with contextlib.suppress(_Absent), self._asking(name):
            return self._client.head_object(**self._place(name))["ContentLength"]
        return None

    def upload(self, name: str, path: Path, sha256: str, on_bytes: OnBytes = unheard) -> None:
        """A file whose digest is known. Raises StoreError, and ModelError for a file that is not what it should be.

        Whatever fails, there is either no such object or the one before. `on_bytes` may raise to stop it.
        """
        with self._asking(name):
            upload_file(self._client, self._place(name), path, sha256, on_bytes)

    def listed(self, folder: str) -> Iterator[StoredObject]:
        """Each object below "<folder>/". Raises StoreError."""
        start = f"{self._prefix}{folder}/"
        with self._asking(folder):
            for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=start):
                for entry in page.get("Contents", ()):
                    yield StoredObject(entry["Key"][len(self._prefix) :], entry["Size"], entry["LastModified"])

    def delete(self, names: Iterable[str]) -> None:
        """In that order; those that are not there count as deleted. Raises StoreError."""
        for name in names:
            with self._asking(name):
                self._client.delete_object(**self._place(name))

    def drop_unfinished(self, folder: str) -> None:
        """Parts of uploads that a killed process left below "<folder>/": they take space, and nobody lists them."""
        with self._asking(folder):
            found = self._client.list_multipart_uploads(Bucket=self._bucket, Prefix=f"{self._prefix}{folder}/")
            for one in found.get("Uploads", ()):
                place = {"Bucket": self._bucket, "Key": one["Key"]}
                self._client.abort_multipart_upload(**place, UploadId=one["UploadId"])

    def origin(self, url: str) -> StoreOrigin:
        """Where a Transfer reads the files below "s3://…". Raises TransferError if it is not of this store."""
        if not url.startswith(f"{self.url}/"):
            raise TransferError("stream.url", f"{url} is not in the object store of this engine, {self.url}")
        return StoreOrigin(self, url.rstrip("/"))

    def signed(self, name: str) -> str:
        """A URL that gives the object to whoever asks soon. Raises StoreError without credentials."""
        with self._asking(name):
            return self._client.generate_presigned_url("get_object", Params=self._place(name), ExpiresIn=_SIGNED_S)

    def tls(self) -> ssl.SSLContext:
        """Trusts who signs public certificates, or AWS_CA_BUNDLE in their place."""
        return ssl.create_default_context(cafile=self._authorities)

    def _place(self, name: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": f"{self._prefix}{name}"}

    @contextlib.contextmanager
    def _asking(self, name: str) -> Iterator[None]:
        try:
            yield
        except _FAILURES as error:
            code = getattr(error, "response", {}).get("Error", {}).get("Code", "")
            if code in _ABSENT:
                raise _Absent(f"{self.url}/{name} is not there") from error
            raise store_error(f"{self.url}/{name}", error) from error


class _Absent(StoreError):
    """There is no such object."""


class StoreOrigin:
    """Files below one folder of a store, for a Transfer; each request is signed anew."""

    def __init__(self, store: ObjectStore, url: str) -> None:
        self._store, self.url = store, url
        self._folder = url[len(store.url) + 1 :]

    def connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self._signed(""))
        assert parts.hostname is not None
        if parts.scheme == "https":
            return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=QUIET_S, context=self._store.tls())
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=QUIET_S)

    def target(self, file: str) -> str:
        parts = urlsplit(self._signed(file))
        return f"{parts.path}?{parts.query}"

    def words(self, answer: str) -> str:
        """ "NoSuchKey: The specified key does not exist" of an answer in XML."""
        found = [re.search(rf"<{tag}>(.*?)</{tag}>", answer, re.DOTALL) for tag in ("Code", "Message")]
        return ": ".join(one[1] for one in found if one) or answer

    def _signed(self, file: str) -> str:
        try:
            return self._store.signed(f"{self._folder}/{file}")
        except StoreError as error:
            raise TransferError(file, str(error)) from error
