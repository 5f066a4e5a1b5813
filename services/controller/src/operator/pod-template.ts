// SPDX-License-Identifier: Apache-2.0
import type { JsonObject } from "@bufbuild/protobuf";
import { type KubeObject, resource } from "@whetstone/kube";

/** Pods that the chart describes and the controller has made. */
export interface PodTemplate extends KubeObject {
  template?: JsonObject;
}

export const POD_TEMPLATES = resource<PodTemplate>("v1", "PodTemplate", "podtemplates");
