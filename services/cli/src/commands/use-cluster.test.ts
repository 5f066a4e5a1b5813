// SPDX-License-Identifier: Apache-2.0
// Which commands go to a cluster, and which are about this machine.
import { expect, it } from "vitest";

import { fakeTerminal } from "../../test-support/fake-terminal.ts";
import type { CommandContext } from "./context.ts";
import { type ClusterFlags, useCluster } from "./use-cluster.ts";

function refusal(words: string, flags: ClusterFlags = {}): Promise<string> {
  const { signal } = new AbortController();
  const environment = { KUBECONFIG: "/nowhere/config" };
  const context: CommandContext = { terminal: fakeTerminal(), environment, signal, force: signal };
  return useCluster(words.split(" "), { context: "lab", ...flags }, context).then(
    () => "",
    (error: unknown) => (error as Error).message,
  );
}

it.each(["tasks make", "tasks verify", "models check", "datasets ls", "datasets rm", "up"])(
  "whet %s is about this machine, and says so of a cluster",
  async (words) => {
    expect(await refusal(words)).toContain(`\`whet ${words}\` is about this machine; it takes no cluster`);
  },
);

it.each(["push", "pull", "ls", "rm"])("whet models and tasks %s look for the cluster", async (verb) => {
  for (const group of ["models", "tasks"]) expect(await refusal(`${group} ${verb}`)).toContain("/nowhere/config");
});

it("whet datasets push and pull do, and ls and rm with --remote", async () => {
  for (const verb of ["push", "pull"]) expect(await refusal(`datasets ${verb}`)).toContain("/nowhere/config");
  for (const verb of ["ls", "rm"])
    expect(await refusal(`datasets ${verb}`, { isRemote: true })).toContain("/nowhere/config");
});
