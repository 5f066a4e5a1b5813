// SPDX-License-Identifier: Apache-2.0
// Without a shared volume the data claim is the controller's alone, and whoever else needs a model fetches it from the controller.
import { type ChartObject, named, podsOf } from "./rendered-chart.ts";

const FETCHING = [
  "Deployment/rel-gateway",
  "Deployment/rel-trainer",
  "EnvironmentPool/default",
  "InferenceFleet/default",
];
const ADDRESS = '{"name":"WHETSTONE_ARTIFACT_ADDRESS","value":"rel-controller:9083"}';

export function nothingShared(objects: readonly ChartObject[]): string[] {
  const text = (object: ChartObject): string => JSON.stringify(object);
  const owner = ({ kind, metadata }: ChartObject): string => `${kind}/${metadata.name}`;
  const ownersOf = (part: string): string =>
    objects
      .filter((object) => object.kind !== "PersistentVolumeClaim" && text(object).includes(part))
      .map(owner)
      .toSorted()
      .join();
  const holders = ownersOf('"claimName":"rel-data"');
  const fetching = ownersOf(ADDRESS);
  const tied = podsOf(objects)
    .filter((pod) => JSON.stringify(pod).includes('"podAffinity"'))
    .map((pod) => pod.owner);
  const reaching = named(objects, "NetworkPolicy")
    .filter(({ spec }) => /"port":9083/.test(JSON.stringify((spec as { egress: unknown }).egress)))
    .map(({ metadata }) => metadata.name)
    .toSorted()
    .join();
  return [
    ...(holders === "Deployment/rel-controller" ? [] : [`the data claim is mounted by ${holders}`]),
    ...(fetching === FETCHING.join() ? [] : [`models are fetched by ${fetching}`]),
    ...(tied.join() === "Deployment/rel-controller" ? [] : [`tied to one node: ${tied.join()}`]),
    ...(reaching === "rel-engine,rel-env-runner,rel-gateway,rel-trainer"
      ? []
      : [`the controller is reached by ${reaching}`]),
    ...(text(objects.find((object) => owner(object) === "InferenceFleet/default") as ChartObject).includes(
      "modelVolume",
    )
      ? ["engines have a model volume"]
      : []),
  ];
}
