// SPDX-License-Identifier: Apache-2.0
// What must hold of the trainers' objects: a Deployment and a Service each, known to the controller, reached by it and by engines.
import { type Check, named, podsOf, policiesOf, selects } from "./rendered-chart.ts";

export function trainers(count: number): Check {
  return (objects) => {
    const wanted = Array.from({ length: count }, (_, index) => (index === 0 ? "rel-trainer" : `rel-trainer-${index}`));
    const namesOf = (kind: string): string[] =>
      named(objects, kind)
        .map(({ metadata }) => metadata.name)
        .filter((name) => /^rel-trainer(-\d+)?$/.test(name));
    const controller = podsOf(objects).find(({ owner }) => owner === "Deployment/rel-controller");
    const told = controller?.containers.flatMap(({ env = [] }) => env) ?? [];
    const addresses = told.find(({ name }) => name === "WHETSTONE_TRAINER_ADDRESS")?.value;
    const isReached = (name: string): boolean => {
      const labels = { ...LABELS, "app.kubernetes.io/component": name.slice("rel-".length) };
      const policy = JSON.stringify(policiesOf(objects).find((each) => selects(each, labels)) ?? {});
      return ["7400", "7401", "controller", "whetstone.dev/fleet"].every((each) => policy.includes(each));
    };
    const checks: [boolean, string][] = [
      [namesOf("Deployment").join() === wanted.join(), `Deployments ${namesOf("Deployment").join()}`],
      [namesOf("Service").join() === wanted.join(), `Services ${namesOf("Service").join()}`],
      [addresses === wanted.map((name) => `${name}:7400`).join(","), `the controller knows ${addresses}`],
      [wanted.every(isReached), "a trainer that controller or engines do not reach"],
    ];
    return checks.filter(([isSo]) => !isSo).map(([, complaint]) => `trainers (${count}): ${complaint}`);
  };
}

/** Weights are broadcast at any port: only where the values say so do engines and trainers reach each other at all of them. */
export function weightGroups(isAllowed: boolean): Check {
  return (objects) => {
    const trainer = podsOf(objects).find(({ owner }) => owner === "Deployment/rel-trainer");
    const args = trainer?.containers.flatMap(({ args = [] }) => args) ?? [];
    const isFree = (component: string, peer: string, way: "ingress" | "egress"): boolean => {
      const policy = policiesOf(objects).find((each) =>
        selects(each, { ...LABELS, "app.kubernetes.io/component": component }),
      );
      const rules = (policy?.[way] ?? []) as readonly { ports?: unknown }[];
      return rules.some((rule) => rule.ports === undefined && JSON.stringify(rule).includes(peer));
    };
    const ways = [
      isFree("trainer", "whetstone.dev/fleet", "ingress"),
      isFree("trainer", "whetstone.dev/fleet", "egress"),
      args.includes("--weights-group=$(POD_IP)"),
    ];
    return ways.every((way) => way === isAllowed) ? [] : [`broadcasts of weights (${isAllowed}): ${ways.join()}`];
  };
}

const LABELS = { "app.kubernetes.io/name": "whetstone", "app.kubernetes.io/instance": "rel" };
