# SPDX-License-Identifier: Apache-2.0
"""Bytes of weights and checkpoints on their way: an object store that speaks S3, and ranges of files over HTTP."""
