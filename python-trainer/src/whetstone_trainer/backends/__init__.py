# SPDX-License-Identifier: Apache-2.0
"""What holds a model and moves it: `protocol` says what a backend does, each folder is one."""
