// SPDX-License-Identifier: Apache-2.0
// MCP servers in pods: a shared one is reached by environments and by nobody else; installed ones lie where the env-runner looks.
import { all, type ChartObject, named, type PodSpec, podsOf, policiesOf, selects } from "./rendered-chart.ts";

export const SHARED = [
  "mcpServers.docs.image=registry.example/docs:1",
  "mcpServers.docs.port=3000",
  "mcpServers.docs.env.ROOT=/docs",
  "mcpServers.docs.envSecret=keys",
];
export const INSTALLED = ["envRunner.mcpServersVolume.persistentVolumeClaim.claimName=mcp"];

export function sharedServer(objects: readonly ChartObject[]): string[] {
  const pod = podsOf(objects).find(({ owner }) => owner === "Deployment/rel-mcp-docs");
  const service = named(objects, "Service").find(({ metadata }) => metadata.name === "rel-mcp-docs");
  if (pod === undefined) return ["no server"];
  const [server] = pod.containers;
  const ports = JSON.stringify([server?.["ports"], service?.["spec"]]);
  const text = JSON.stringify(server?.env);
  return [
    ...reachedBy(objects, pod),
    ...(/"containerPort":3000.*"port":3000/.test(ports) ? [] : [`its ports: ${ports}`]),
    ...(text.includes('{"name":"ROOT","value":"/docs"}') && text.includes('{"name":"PORT","value":"3000"}')
      ? []
      : [`its variables: ${text}`]),
    ...(JSON.stringify(server?.["envFrom"]) === '[{"secretRef":{"name":"keys"}}]' ? [] : ["it has not its Secret"]),
  ];
}

/** Who may connect to it, and whom it may connect to. */
function reachedBy(objects: readonly ChartObject[], pod: PodSpec): string[] {
  const [own, ...more] = policiesOf(objects).filter((policy) => selects(policy, pod.labels));
  const ingress = JSON.stringify((own as { ingress?: unknown } | undefined)?.ingress);
  const fromRunners =
    '[{"from":[{"podSelector":{"matchExpressions":[{"key":"whetstone.dev/pool","operator":"Exists"}]}}],';
  const runners = policiesOf(objects).filter((policy) => selects(policy, { "whetstone.dev/pool": "any" }));
  const isReached = runners.some(({ egress = [] }) => /component":"mcp-docs"/.test(JSON.stringify(egress)));
  return [
    ...(own !== undefined && more.length === 0 && own.policyTypes.length === 2 ? [] : ["not one policy for both ways"]),
    ...(ingress?.startsWith(fromRunners) && ingress.endsWith('"port":3000}]}]') ? [] : [`it is reached by ${ingress}`]),
    ...(own?.egress?.length === 1 ? [] : ["it reaches more than names"]),
    ...(isReached ? [] : ["environments do not reach it"]),
  ];
}

export function installedServers(objects: readonly ChartObject[]): string[] {
  const pod = podsOf(objects).find(({ owner }) => owner === "EnvironmentPool/default");
  if (pod === undefined) return ["no environments"];
  const [runner] = all(pod);
  const path = runner?.env?.find(({ name }) => name === "WHETSTONE_MCP_SERVERS_PATH")?.value;
  const mount = runner?.volumeMounts?.find(({ mountPath }) => mountPath === path);
  const volume = pod.volumes?.find(({ name }) => name === mount?.name);
  return [
    ...(path === "/opt/mcp-servers" ? [] : [`servers are looked for at ${path}`]),
    ...((mount as { readOnly?: boolean } | undefined)?.readOnly === true ? [] : ["they could be written"]),
    ...(JSON.stringify(volume).includes('"claimName":"mcp"') ? [] : [`they come from ${JSON.stringify(volume)}`]),
  ];
}
