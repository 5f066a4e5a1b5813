// SPDX-License-Identifier: Apache-2.0
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Duration } from "@bufbuild/protobuf/wkt";
import { type DescribeResponseSchema, EnvironmentService } from "@whetstone/proto/environments/v1/environments";
import { implement, type ServiceImplementation } from "@whetstone/rpc";
import type { KindDescription } from "../host/calls.ts";
import { EnvironmentSession, type ServiceDeps } from "./session.ts";

export function environmentService(deps: ServiceDeps): ServiceImplementation {
  const builtIn = deps.registry.kinds.map((kind) =>
    describeKind({ ...kind, argsSchemaJson: JSON.stringify(kind.argsSchema) }),
  );
  return implement(EnvironmentService, {
    describe: async ({ module }, { signal }) => {
      const kinds = module && (await deps.modules.describe(module, signal)).map(describeKind);
      const { total, used } = deps.slots;
      return { kinds: kinds ?? builtIn, slots: total, slotsUsed: used, draining: deps.drain.draining };
    },
    drain: ({ deadline, undo }) => {
      if (undo) deps.drain.undo();
      else deps.drain.start(deadline === undefined ? deps.config.drainMs : msOf(deadline));
      return { slotsUsed: deps.slots.used };
    },
    session: (requests, context) => new EnvironmentSession(deps, context.signal).run(requests),
  });
}

function msOf({ seconds, nanos }: Duration): number {
  return Number(seconds) * 1000 + nanos / 1e6;
}

type KindInit = NonNullable<MessageInitShape<typeof DescribeResponseSchema>["kinds"]>[number];

function describeKind({ kind, description, argsSchemaJson, seedable }: KindDescription): KindInit {
  return {
    kind,
    description,
    argsSchemaJson,
    actionSchemaJson: JSON.stringify({ type: "string" }),
    capabilities: { concurrent: true, seedable, resumable: false, checkpointable: false },
  };
}
