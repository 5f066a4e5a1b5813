# SPDX-License-Identifier: Apache-2.0
"""How an engine comes by weights: from a folder that it sees, or over HTTP from the trainer."""
