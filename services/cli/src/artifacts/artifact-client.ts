// SPDX-License-Identifier: Apache-2.0
import { ArtifactKind, ArtifactService } from "@whetstone/proto/artifacts/v1/artifacts";
import type { ArtifactKindName } from "@whetstone/core";
import type { RpcClient } from "@whetstone/rpc";

import { clientOf } from "../connect/clients.ts";
import { controllerAddress } from "../connect/endpoint.ts";

export type ArtifactClient = RpcClient<typeof ArtifactService>;

export const KINDS = {
  models: ArtifactKind.MODELS,
  datasets: ArtifactKind.DATASETS,
  tasks: ArtifactKind.TASKS,
} as const satisfies Record<ArtifactKindName, ArtifactKind>;

export function artifactClient(data: string | undefined, environment: NodeJS.ProcessEnv): ArtifactClient {
  return clientOf(ArtifactService, { role: "controller", address: controllerAddress(data, environment) }, environment);
}
