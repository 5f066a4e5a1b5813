# SPDX-License-Identifier: Apache-2.0
"""From a manifest to training rows: reading episodes, crediting calls to trajectories, cutting rows, checking them."""
