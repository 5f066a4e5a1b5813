# SPDX-License-Identifier: Apache-2.0
"""Many devices: verl's FSDP2 engines in Ray actors, one a device, under the same service.

verl and Ray are not requirements of the package: python-trainer/verl-requirements.txt has them. Nothing outside this
folder imports it before a trainer is started with `--backend verl`.
"""
