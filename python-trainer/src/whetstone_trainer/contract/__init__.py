# SPDX-License-Identifier: Apache-2.0
"""What crosses the border: the settings read from a job, and the errors that leave as gRPC statuses."""
