// SPDX-License-Identifier: Apache-2.0
// What must hold of the gateway's objects: one or several replicas, and the port for agents.
import { all, type Check, named, podsOf, policiesOf, selects } from "./rendered-chart.ts";

/** With several replicas our services know each by its address, one that leaves has time, and one at a time is evicted. */
export function gateways(how: "one" | "several" | "scaled"): Check {
  return (objects) => {
    const several = how !== "one";
    const names = (kind: string): string[] => named(objects, kind).map(({ metadata }) => metadata.name);
    const deployment = named(objects, "Deployment").find(({ metadata }) => metadata.name === "rel-gateway");
    const { replicas, strategy, template } = deployment?.["spec"] as {
      replicas?: number;
      strategy: { type: string };
      template: { spec: { terminationGracePeriodSeconds: number } };
    };
    const valueOf = (name: string): string =>
      podsOf(objects)
        .flatMap(({ containers }) => containers.flatMap(({ env = [] }) => env))
        .find((each) => each.name === name)?.value ?? "";
    const host = several ? "rel-gateway-headless" : "rel-gateway";
    const policy = JSON.stringify(policiesOf(objects).find((each) => selects(each, GATEWAY_LABELS)) ?? {});
    const wanted: [boolean, string][] = [
      [names("Service").includes("rel-gateway-headless") === several, "a Service for each replica's address"],
      [names("HorizontalPodAutoscaler").includes("rel-gateway") === (how === "scaled"), "an autoscaler"],
      [names("PodDisruptionBudget").includes("rel-gateway") === several, "a disruption budget"],
      [replicas === { one: 1, several: 3, scaled: undefined }[how], `${replicas} replicas`],
      [strategy.type === (several ? "RollingUpdate" : "Recreate"), `strategy ${strategy.type}`],
      [template.spec.terminationGracePeriodSeconds === (several ? 75 : 15), "another time to end"],
      [valueOf("WHETSTONE_GATEWAY_URL").includes(`//${host}:8080`), valueOf("WHETSTONE_GATEWAY_URL")],
      [
        valueOf("WHETSTONE_AGENT_GATEWAY_URL").includes(`//${several ? host : "rel-agents"}:8081`),
        "the port for agents",
      ],
      [valueOf("WHETSTONE_FLEET_ADDRESS") === `${host}:9080`, valueOf("WHETSTONE_FLEET_ADDRESS")],
      [(valueOf("WHETSTONE_OWN_URL") !== "") === several, "its own URL"],
      [valueOf("WHETSTONE_HANDOVER_URL").endsWith("//rel-gateway-headless:8080") === several, "the others' URL"],
      [valueOf("WHETSTONE_DRAIN_MS") === (several ? "60000" : ""), "time for sessions"],
      [WAYS_BETWEEN.every((way) => way.test(policy) === several), "ways between replicas"],
    ];
    return wanted.filter(([isSo]) => !isSo).map(([, complaint]) => `gateways (${how}): ${complaint}`);
  };
}

/** Of sessions that are handed over, and of requests that are passed on. */
const WAYS_BETWEEN = [8080, 8081].map(
  (port) =>
    new RegExp(
      `"from":\\[\\{"podSelector":\\{"matchLabels":\\{[^}]*"gateway"[^\\]]*\\],"ports":\\[[^\\]]*"port":${port}`,
    ),
);

const GATEWAY_LABELS = {
  "app.kubernetes.io/name": "whetstone",
  "app.kubernetes.io/instance": "rel",
  "app.kubernetes.io/component": "gateway",
};

/** HTTP agents are told of a name that the gateway's certificate has; nothing but the port for agents goes with it, and nobody is let in unasked. */
export function agentsPort(url: string, type: string, cidrs: readonly string[]): Check {
  return (objects) => {
    const orchestrator = podsOf(objects).find(({ owner }) => owner === "Deployment/rel-orchestrator");
    const told = orchestrator?.containers.flatMap(({ env = [] }) => env) ?? [];
    const service = named(objects, "Service").find(({ metadata }) => metadata.name === "rel-agents");
    const spec = service?.["spec"] as { type: string; ports: readonly { port: number }[] } | undefined;
    const desired = podsOf(objects).flatMap((pod) => all(pod).flatMap(({ env = [] }) => env));
    const certificates = desired.find(({ name }) => name === "WHETSTONE_CERTIFICATES")?.value ?? '{"leaves":[]}';
    const { leaves } = JSON.parse(certificates) as { leaves: readonly { role: string; names: readonly string[] }[] };
    const policies = JSON.stringify(
      named(objects, "NetworkPolicy").find(({ metadata }) => metadata.name === "rel-gateway"),
    );
    const let8081 = cidrs.map(
      (cidr) => `{"from":[{"ipBlock":{"cidr":"${cidr}"}}],"ports":[{"protocol":"TCP","port":8081}]}`,
    );
    const expected: readonly (readonly [boolean, string])[] = [
      [told.some(({ name, value }) => name === "WHETSTONE_PUBLIC_GATEWAY_URL" && value === url), "another URL is told"],
      [spec?.type === type && spec.ports.map(({ port }) => port).join() === "8081", "not the port for agents alone"],
      [leaves.find(({ role }) => role === "gateway")?.names.includes(new URL(url).hostname) === true, "no such name"],
      [let8081.every((rule) => policies.includes(rule)), "agents are not let in"],
      [(policies.match(/ipBlock/g) ?? []).length === cidrs.length, "others are"],
    ];
    return expected.filter(([holds]) => !holds).map(([, complaint]) => `agents' port: ${complaint}`);
  };
}
