// SPDX-License-Identifier: Apache-2.0
/** The program that runs a job's environments. Its parent is the env-runner. */
import { type CallScope, type ChildMethods, loadModule, NOWHERE, serveChild } from "@whetstone/modules/child";
import { createRegistry, readModule } from "@whetstone/sdk";
import type { CheckCall, CloseCall, KindDescription, ResetCall, ServeCall, StepCall } from "./calls.ts";
import { OpenSessions } from "./open-sessions.ts";

serveChild(async ({ code }: { readonly code: Uint8Array }): Promise<ChildMethods> => {
  const { environments } = readModule(await loadModule(code, { folder: NOWHERE }));
  const registry = createRegistry("environment", environments);
  const sessions = new OpenSessions((kind, args) => registry.get(kind).create(args));
  const kinds = environments.map(({ kind, description, argsSchema, seedable }) => ({
    kind,
    description,
    argsSchemaJson: JSON.stringify(argsSchema),
    seedable,
  }));
  return {
    methods: {
      describe: (): KindDescription[] => kinds,
      reset: (call: ResetCall, scope: CallScope) => sessions.reset(call, scope),
      step: (call: StepCall, scope: CallScope) => sessions.step(call, scope),
      check: (call: CheckCall, scope: CallScope) => sessions.check(call, scope),
      serve: (call: ServeCall, scope: CallScope) => sessions.serve(call, scope),
      close: (call: CloseCall) => sessions.close(call),
    },
    close: () => sessions.closeAll(),
  };
});
