// SPDX-License-Identifier: Apache-2.0
import type { JsonObject } from "@bufbuild/protobuf";
import type { Kube } from "@whetstone/kube";
import { POD_TEMPLATES } from "../pod-template.ts";
import { RAY_TEMPLATE, type RayTemplates } from "./ray-pods.ts";

/** What the chart says of Ray's pods. */
export async function rayTemplates(kube: Kube, signal: AbortSignal): Promise<RayTemplates> {
  const found = await kube.list(POD_TEMPLATES, { labels: RAY_TEMPLATE, signal });
  const of = (which: keyof RayTemplates): JsonObject | undefined =>
    found.find(({ metadata }) => metadata.labels?.[RAY_TEMPLATE] === which)?.template;
  return { head: of("head"), workers: of("workers") };
}
