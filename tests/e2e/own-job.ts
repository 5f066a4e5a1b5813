// SPDX-License-Identifier: Apache-2.0
// The example's agent and environment without a sandbox: images have no bubblewrap, and pods may make no user namespaces.
import job from "../../examples/math/agent.ts";

export * from "../../examples/math/agent.ts";

export default {
  ...job,
  document: async () => ({ ...(await job.document()), module: { sandbox: { backend: "none" } } }),
};
