# SPDX-License-Identifier: Apache-2.0
"""The gRPC service and the job that it trains."""
