// SPDX-License-Identifier: Apache-2.0
// What can be said of the chart without installing it: lint, the schema's refusals, and each set of values before the
// real API server.
import { INSTALLED, SHARED } from "./chart-mcp.ts";
import { checkObjects } from "./chart-objects.ts";
import { CHART, attempt, command, helm, kubectl } from "./cluster.ts";

/** Values, as --set takes them, that must make objects the API server takes. */
const MATRIX: Readonly<Record<string, readonly string[]>> = {
  defaults: [],
  "external NATS": ["nats.enabled=false", "nats.external.url=nats://nats.example:4222"],
  "external NATS with credentials": [
    "nats.enabled=false",
    "nats.external.url=tls://nats.example:4222",
    "nats.external.replicas=3",
    "nats.external.credentialsSecret.name=mine",
    "nats.external.caSecret.name=mine",
    "networkPolicy.natsTo[0].ipBlock.cidr=10.0.0.0/8",
  ],
  "three NATS servers": ["nats.replicas=3"],
  "no TLS": ["tls.mode=off"],
  "no TLS, three NATS servers": ["tls.mode=off", "nats.replicas=3"],
  "TLS from secrets": ["tls.mode=secret", "tls.secrets.trainer=mine"],
  "TLS by cert-manager": ["tls.mode=certManager"],
  "TLS by an issuer of one's own": [
    "tls.mode=certManager",
    "tls.certManager.issuerRef.kind=ClusterIssuer",
    "tls.certManager.issuerRef.name=corporate",
  ],
  monitoring: [
    "monitoring.podMonitors.enabled=true",
    "monitoring.prometheusRule.enabled=true",
    "monitoring.dashboards.enabled=true",
    "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.team=monitoring",
  ],
  "own model": ["model.init=null", "model.path=/data/models/mine"],
  "existing claim": ["data.existingClaim=mine"],
  "spread over nodes": ["data.accessMode=ReadWriteMany", "engine.replicas=3", "orchestrator.replicas=2"],
  "kept data": ["data.keep=true", "nats.persistence.keep=true"],
  "one GPU each": [
    "engine.device=cuda",
    "engine.dtype=bfloat16",
    "engine.resources.limits.nvidia\\.com/gpu=1",
    "engine.runtimeClassName=nvidia",
    "engine.tolerations[0].key=nvidia.com/gpu",
    "engine.tolerations[0].operator=Exists",
    "trainer.device=cuda",
    "trainer.resources.limits.nvidia\\.com/gpu=1",
  ],
  "vLLM, engines of two nodes": [
    "engine.profile=vllm",
    "engine.nodesPerReplica=2",
    "engine.image=registry.example/vllm:1",
    "model.init=null",
    "model.path=/data/models/mine",
    "engine.device=cuda",
    "engine.resources.limits.nvidia\\.com/gpu=8",
  ],
  "environments that scale by themselves": ["envRunner.autoscaling.enabled=true", "envRunner.autoscaling.max=100"],
  browsers: ["envRunnerBrowser.enabled=true", "envRunnerBrowser.autoscaling.enabled=true"],
  "MCP servers": [...SHARED, ...INSTALLED],
  KEDA: ["envRunner.keda.enabled=true", "envRunner.keda.prometheusAddress=http://prometheus.monitoring:9090"],
  Kueue: ["kueue.priorityClasses=true", "kueue.flavors=true"],
  "engines and trainer on demand": ["onDemand=true", "kueue.flavors=true"],
  "no policies, budgets, no metrics": [
    "networkPolicy.enabled=false",
    "podDisruptionBudgets.enabled=true",
    "metrics.enabled=false",
  ],
  "object store": [
    "objectStore.url=s3://bucket/prefix",
    "objectStore.endpoint=https://store.example:9000",
    "objectStore.credentialsSecret=mine",
    "objectStore.caSecret.name=theirs",
    "networkPolicy.objectStoreTo[0].ipBlock.cidr=10.0.0.0/8",
  ],
  "episodes in an object store": [
    "objectStore.url=s3://bucket/prefix",
    "objectStore.episodes=true",
    "objectStore.credentialsSecret=mine",
    "objectStore.caSecret.name=theirs",
  ],
  "no shared volume": [
    "data.shared=false",
    "data.perPod.emptyDir.sizeLimit=40Gi",
    "objectStore.url=s3://bucket/prefix",
    "engine.replicas=3",
  ],
  "no shared volume, on demand, from a pushed model": [
    "data.shared=false",
    "objectStore.url=s3://bucket/prefix",
    "onDemand=true",
    "model.init=null",
    `model.path=/data/artifacts/sha256/${"ab".repeat(32)}/files`,
  ],
  "no shared volume, engines of vLLM": [
    "data.shared=false",
    "objectStore.url=s3://bucket/prefix",
    "engine.profile=vllm",
    "engine.weightsVolume.emptyDir.sizeLimit=40Gi",
    "model.init=null",
    `model.path=/data/artifacts/sha256/${"ab".repeat(32)}/files`,
  ],
  "several trainers": ["trainer.replicas=3", "engine.replicas=4"],
  "named peers": [
    "networkPolicy.controllerFrom[0].ipBlock.cidr=10.0.0.0/8",
    "networkPolicy.agentsFrom[0].ipBlock.cidr=10.0.0.0/8",
    "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.team=monitoring",
  ],
  "settings, secrets, exposed": [
    "orchestrator.env.WHETSTONE_MAX_EPISODES=512",
    "controller.env.WHETSTONE_MAX_EPISODE_BYTES=17179869184",
    "images.pullSecrets[0]=mine",
    "controller.serviceType=NodePort",
    "gateway.agents.serviceType=LoadBalancer",
    "gateway.agents.url=https://agents.example",
    "controller.image=registry.example/controller@sha256:0000000000000000000000000000000000000000000000000000000000000000",
  ],
};

/** Values that must be refused, and what the refusal must name. */
const REFUSED: readonly (readonly [setting: string, named: RegExp])[] = [
  ["enigne.replicas=2", /enigne/],
  ["engine.replica=2", /replica/],
  ["engine.replicas=two", /replicas/],
  ["engine.device=tpu", /device/],
  ["trainer.dtype=float16", /dtype/],
  ["trainer.replicas=0", /replicas/],
  ["trainer.replicas=2,onDemand=true", /trainer\.replicas: .*onDemand/],
  ["model.path=/models/policy", /path/],
  ["model.init.preset=huge", /preset|init/],
  ["nats.enabled=false", /url/],
  ["objectStore.url=http://bucket", /objectStore/],
  ["objectStore.style=host", /style/],
  ["objectStore.episodes=true", /objectStore.*url/s],
  ["objectStore.url=s3://bucket,objectStore.episodes=often", /episodes/],
  ["gateway.agents.url=agents.example", /agents/],
  ["images.pullPolicy=Sometimes", /pullPolicy/],
  ["onDemand=often", /onDemand/],
  ["logLevel=loud", /logLevel/],
  ["data.accessMode=ReadOnlyMany", /accessMode/],
  ["data.shared=false", /objectStore/],
  ["data.shared=false,objectStore.url=s3://bucket,engine.profile=vllm,model.init=null", /engine\.weightsVolume: /],
  [
    "data.shared=false,objectStore.url=s3://bucket,model.init=null,model.path=/data/models/m",
    /model\.path: .*artifacts/,
  ],
  ["trainer.resources.limit.memory=1Gi", /limit/],
  ["envRunner.replica=2", /replica/],
  ["networkPolicy.controllerFrom[0].cidr=10.0.0.0/8", /cidr/],
  ["networkPolicy.apiServer.cidrs[0]=here", /cidrs/],
  ["nats.replicas=2", /replicas/],
  ["mcpServers.docs.port=8080", /image/],
  ["mcpServers.docs.image=a,mcpServers.docs.ports=1", /ports/],
  ["mcpServers.Docs.image=a", /Docs/],
  ["envRunner.mcpServersVolume=mcp", /mcpServersVolume/],
  ["tls.mode=on", /mode/],
  ["tls.secrets.worker=mine", /worker/],
  ["tls.days=0", /days/],
  ["monitoring.podMonitors.interval=often", /interval/],
  ["engine.profile=vllm", /model\.init: .*model\.init=null/],
  ["engine.nodesPerReplica=2", /engine\.nodesPerReplica: .*vllm/],
];

/** Throws at the first that is wrong; answers how many were looked at. */
export function checkChart(namespace: string): { matrix: number; refused: number; objects: number } {
  helm("lint", "--strict", CHART);
  const objects = checkObjects();
  for (const [name, settings] of Object.entries(MATRIX)) dryRun(name, settings, namespace);
  if (unasked.size > 0) console.log(`rendered only, not on this cluster: ${[...unasked].join(", ")}`);
  for (const [setting, named] of REFUSED) mustRefuse(setting, named);
  return { matrix: Object.keys(MATRIX).length, refused: REFUSED.length, objects };
}

function dryRun(name: string, settings: readonly string[], namespace: string): void {
  try {
    helm("lint", "--strict", CHART, ...flags(settings));
    const manifest = helm("template", "whetstone", CHART, "--namespace", namespace, ...flags(settings));
    command("kubectl", ["-n", namespace, "apply", "--dry-run=server", "-f", "-"], known(manifest));
  } catch (cause) {
    throw new Error(`chart, values "${name}": ${(cause as Error).message}`, { cause });
  }
}

/** Objects of add-ons that this cluster does not have cannot be asked about: their form is checked without it. */
function known(manifest: string): string {
  return manifest
    .split(/^---$/m)
    .filter((text) => /^apiVersion: (\S+)$/m.test(text))
    .filter((text) => isServed(/^apiVersion: (\S+)$/m.exec(text)?.[1] ?? ""))
    .join("---\n");
}

function isServed(group: string): boolean {
  served ??= new Set(kubectl("api-versions").trim().split("\n"));
  if (!served.has(group)) unasked.add(group);
  return served.has(group);
}

let served: ReadonlySet<string> | undefined;
const unasked = new Set<string>();

function mustRefuse(setting: string, named: RegExp): void {
  const { status, output } = attempt("helm", ["template", "whetstone", CHART, ...flags([setting])]);
  if (status === 0) throw new Error(`the chart takes --set ${setting}, and should refuse it`);
  if (!named.test(output)) throw new Error(`--set ${setting} is refused without naming ${named.source}:\n${output}`);
}

function flags(settings: readonly string[]): string[] {
  return settings.flatMap((setting) => ["--set", setting]);
}
