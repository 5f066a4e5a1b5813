// SPDX-License-Identifier: Apache-2.0
// Engines on pods, for services that run beside the test.
import type { InferenceFleet } from "../../services/controller/src/operator/inference-fleet/schema.ts";
import type { Stage } from "./controllers.ts";

export const MODEL_TOOLS = `${process.env["REGISTRY"] || "localhost/whetstone"}/model-tools:${process.env["TAG"] || "dev"}`;

/** Engines read models and weights where the services of this machine write them, so nodes must be this machine. */
export function fleetSpec(stage: Stage): InferenceFleet["spec"] {
  const source = process.env["WHETSTONE_TEST_ENGINE_SOURCE"];
  const packages = source ? ["whetstone_engine", "whetstone_tls", "whetstone_models"] : [];
  const volumes = [
    { name: "data", hostPath: { path: stage.data } },
    ...(source ? [{ name: "source", hostPath: { path: source } }] : []),
  ];
  const volumeMounts = [
    { name: "data", mountPath: stage.data, readOnly: true },
    ...packages.map((name) => ({ name: "source", mountPath: `/opt/whetstone/src/${name}`, subPath: name })),
  ];
  const resources = { requests: { cpu: "10m", memory: "256Mi" } };
  const template = {
    image: MODEL_TOOLS,
    imagePullPolicy: "IfNotPresent",
    terminationGracePeriodSeconds: 10,
    resources,
  };
  const spec = {
    replicas: 1,
    drainSeconds: 10,
    model: { path: stage.model },
    template: { ...template, volumes, volumeMounts },
  };
  return spec as unknown as InferenceFleet["spec"];
}
