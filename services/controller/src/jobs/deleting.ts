// SPDX-License-Identifier: Apache-2.0
/** What a finished job's status says from the moment on in which it is being deleted. */
export const DELETING = {
  reason: "Deleting",
  message: "It is being deleted. Where that was interrupted, `whet jobs delete` does the rest.",
};
