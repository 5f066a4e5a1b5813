// SPDX-License-Identifier: Apache-2.0
// What the chart makes of its values, object by object: rules that hold for whatever is in it.
import { nothingShared } from "./chart-data.ts";
import { agentsPort, gateways } from "./chart-gateways.ts";
import { INSTALLED, installedServers, SHARED, sharedServer } from "./chart-mcp.ts";
import { trainers, weightGroups } from "./chart-trainers.ts";
import {
  all,
  type ChartObject,
  type Check,
  named,
  type PodSpec,
  podsOf,
  policiesOf,
  render,
  selects,
} from "./rendered-chart.ts";

/** Who reads or puts bodies of episodes, beside trainers. */
const BODIES = ["controller", "orchestrator"];

/** Values, and what must hold of the objects: complaints, none when it does. */
const CHECKS: readonly (readonly [values: readonly string[], check: Check])[] = [
  [[], everyPodRestricted],
  [[], tokensOnlyWhereNeeded],
  [[], rightsAreNarrow],
  [[], everyPodHasPolicy],
  [[], environmentsReach([53, 9083, 7443])],
  [["tls.mode=off"], environmentsReach([53])],
  [[], certificatesEverywhere],
  [["tls.mode=secret", "tls.secrets.trainer=mine"], ownSecrets],
  [["tls.mode=off"], plainText],
  [["tls.mode=certManager"], certManager],
  [["nats.replicas=3"], threeServers],
  [["nats.enabled=false", "nats.external.url=tls://n:4222", "nats.external.credentialsSecret.name=mine"], externalNats],
  [
    ["objectStore.url=s3://bucket/p", "objectStore.endpoint=http://s3:9000", "objectStore.credentialsSecret=mine"],
    storeReached(false),
  ],
  [
    [
      "objectStore.url=s3://bucket/p",
      "objectStore.endpoint=http://s3:9000",
      "objectStore.credentialsSecret=mine",
      "objectStore.caSecret.name=theirs",
      "objectStore.episodes=true",
    ],
    storeReached(true),
  ],
  [["data.shared=false", "objectStore.url=s3://bucket/p"], nothingShared],
  [[], enginesReachWeights],
  [[], agentsPort("https://rel-agents.there.svc:8081", "ClusterIP", [])],
  [
    [
      "gateway.agents.url=https://agents.example:8443",
      "gateway.agents.serviceType=LoadBalancer",
      "networkPolicy.agentsFrom[0].ipBlock.cidr=10.0.0.0/8",
    ],
    agentsPort("https://agents.example:8443", "LoadBalancer", ["10.0.0.0/8"]),
  ],
  [[], gateways("one")],
  [["gateway.replicas=3"], gateways("several")],
  [["gateway.autoscaling.enabled=true", "tls.mode=off"], gateways("scaled")],
  [[], trainers(1)],
  [["trainer.replicas=3"], trainers(3)],
  [[], weightGroups(false)],
  [["trainer.weightsGroups=true"], weightGroups(true)],
  [["trainer.weightsGroups=true"], everyPodHasPolicy],
  [[], probesNeedNoCertificate],
  [[], runsCodeOfJobs(false)],
  [["trainer.algorithmModules=true"], runsCodeOfJobs(true)],
  [SHARED, sharedServer],
  [SHARED, everyPodRestricted],
  [SHARED, tokensOnlyWhereNeeded],
  [INSTALLED, installedServers],
];

/** Throws with all complaints; answers how many rules were looked at. */
export function checkObjects(): number {
  const complaints = CHECKS.flatMap(([values, check]) =>
    check(render(values)).map((complaint) => `[${values.join(" ") || "defaults"}] ${complaint}`),
  );
  if (complaints.length > 0) throw new Error(`the chart's objects:\n${complaints.join("\n")}`);
  return CHECKS.length;
}

function everyPodRestricted(objects: readonly ChartObject[]): string[] {
  return podsOf(objects).flatMap((pod) => {
    const seccomp = (pod.securityContext?.["seccompProfile"] as { type?: string } | undefined)?.type;
    const own = pod.securityContext?.["runAsNonRoot"] === true && seccomp === "RuntimeDefault";
    const open = all(pod).filter(
      ({ securityContext: context }) =>
        context?.["allowPrivilegeEscalation"] !== false ||
        context["readOnlyRootFilesystem"] !== true ||
        JSON.stringify(context["capabilities"]) !== '{"drop":["ALL"]}',
    );
    return [
      ...(own ? [] : [`${pod.owner}: not restricted`]),
      ...open.map(({ name }) => `${pod.owner}, container ${name}: not restricted`),
    ];
  });
}

function tokensOnlyWhereNeeded(objects: readonly ChartObject[]): string[] {
  const mayHave = /^(Deployment\/rel-controller|Job\/rel-certificates-\w+)$/;
  return podsOf(objects)
    .filter(({ owner, automountServiceAccountToken }) => automountServiceAccountToken !== false && !mayHave.test(owner))
    .filter(({ owner }) => !/^(Job|CronJob)\//.test(owner))
    .map(({ owner }) => `${owner}: has a token of a service account`);
}

interface Rule {
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  readonly apiGroups: readonly string[];
  readonly resourceNames?: readonly string[];
}

function rightsAreNarrow(objects: readonly ChartObject[]): string[] {
  const rules = named(objects, "Role").flatMap((role) =>
    (role["rules"] as readonly Rule[]).map((rule) => ({ role, rule })),
  );
  return [
    ...named(objects, "ClusterRole").map(({ metadata }) => `ClusterRole ${metadata.name}: rights in all namespaces`),
    ...rules.flatMap(({ role, rule }) => {
      const wide = [...rule.resources, ...rule.verbs, ...rule.apiGroups].includes("*");
      const secrets = rule.resources.includes("secrets");
      // With names a list, a watch and a server-side apply are of these alone; a plain create has no name and is refused.
      const named = (rule.resourceNames?.length ?? 0) > 0 && !rule.verbs.includes("deletecollection");
      return [
        ...(wide ? [`Role ${role.metadata.name}: a right to everything`] : []),
        ...(secrets && !named ? [`Role ${role.metadata.name}: secrets without names`] : []),
      ];
    }),
  ];
}

function everyPodHasPolicy(objects: readonly ChartObject[]): string[] {
  const policies = policiesOf(objects);
  return podsOf(objects)
    .filter(({ owner }) => /^(Deployment|StatefulSet|Job)\//.test(owner))
    .filter(({ labels }) => !policies.some((policy) => policy.policyTypes.length === 2 && selects(policy, labels)))
    .map(({ owner }) => `${owner}: no network policy for both ways`);
}

/** Whom a port leads to, and nobody else. */
const ONLY_TO = [
  [9083, '"app.kubernetes.io/component":"controller"'],
  [7443, '"whetstone.dev/sandbox-pool"'],
] as const;

/** Names, and with certificates the controller (artifacts, claims) and sandboxes: the address is there exactly where the way is. */
function environmentsReach(wanted: readonly number[]): Check {
  return (objects) => {
    const own = policiesOf(objects).filter((policy) => selects(policy, { "whetstone.dev/pool": "any" }));
    if (own.length === 0) return ["no policy for environments"];
    const rules = own.flatMap(({ egress = [] }) => egress);
    const ports = new Set(rules.flatMap(({ ports = [] }) => ports.map(({ port }) => port)));
    const isOpen = rules.some(({ ports = [] }) => ports.length === 0);
    const isWide = ONLY_TO.some(([to, label]) =>
      rules.some((rule) => (rule.ports ?? []).some(({ port }) => port === to) && !JSON.stringify(rule).includes(label)),
    );
    const isSame = ports.size === wanted.length && wanted.every((port) => ports.has(port));
    const runner = podsOf(objects).find(({ owner }) => owner.startsWith("EnvironmentPool/"));
    const variables = runner?.containers.flatMap(({ env = [] }) => env.map(({ name }) => name)) ?? [];
    const hasAddress = variables.includes("WHETSTONE_ARTIFACT_ADDRESS");
    return [
      ...(isOpen || isWide || !isSame ? [`environments reach ports ${[...ports].join(", ")}`] : []),
      ...(hasAddress === wanted.includes(9083)
        ? []
        : ["environments are told of artifacts that they do not reach, or not told"]),
    ];
  };
}

const ROLE_OF: readonly (readonly [owner: RegExp, role: string])[] = [
  [/rel-(controller|orchestrator|gateway|trainer|nats)$/, "$1"],
  [/env-runner|EnvironmentPool/, "env-runner"],
  [/engine|InferenceFleet/, "engine"],
];

function roleOf(owner: string): string {
  const [pattern, role] = ROLE_OF.find(([known]) => known.test(owner)) ?? [];
  return pattern === undefined ? "" : (role ?? "").replace("$1", pattern.exec(owner)?.[1] ?? "");
}

function services(objects: readonly ChartObject[]): PodSpec[] {
  return podsOf(objects).filter(({ owner }) => roleOf(owner) !== "");
}

/** Each pod has its own role's certificate, and no other. */
function certificatesEverywhere(objects: readonly ChartObject[]): string[] {
  const texts = JSON.stringify(objects);
  const secrets = new Set(named(objects, "Secret").map(({ metadata }) => metadata.name));
  return [
    ...services(objects).flatMap((pod) => {
      const has = (pod.volumes ?? []).map(({ secret }) => secret?.secretName).filter((name) => name !== undefined);
      const wanted = `rel-${roleOf(pod.owner)}-tls`;
      return [
        ...(has.join() === wanted ? [] : [`${pod.owner}: has secrets "${has.join()}" and not "${wanted}"`]),
        ...(secrets.has(wanted) ? [] : [`${wanted}: nobody makes it`]),
      ];
    }),
    ...(secrets.has("rel-client") ? [] : ["rel-client: nobody makes it"]),
    // NATS's monitoring port says how the server is, and nothing else; only the controller may reach it.
    ...(/"http:\/\/rel-(?!nats-\d+\.rel-nats-headless:8222")|"nats:\/\/rel-/.test(texts)
      ? ["an address without TLS"]
      : []),
    ...(named(objects, "Secret").some((secret) => "data" in secret || "stringData" in secret)
      ? ["a Secret with contents: an upgrade would write over what is in it"]
      : []),
  ];
}

function ownSecrets(objects: readonly ChartObject[]): string[] {
  const trainer = services(objects).find(({ owner }) => roleOf(owner) === "trainer");
  const mine = trainer?.volumes?.some(({ secret }) => secret?.secretName === "mine") === true;
  return [...(mine ? [] : ["the trainer does not use its secret"]), ...made(objects, ["Secret", "Job", "Certificate"])];
}

function plainText(objects: readonly ChartObject[]): string[] {
  const found = /WHETSTONE_TLS_PATH|verify_and_map|https:\/\/rel-|tls:\/\/rel-/.exec(JSON.stringify(objects));
  return [...(found ? [`"${found[0]}" without TLS`] : []), ...made(objects, ["Secret", "Job", "Certificate"])];
}

function certManager(objects: readonly ChartObject[]): string[] {
  const certificates = named(objects, "Certificate").map(
    (object) => object["spec"] as { secretName: string; dnsNames?: string[] },
  );
  const names = certificates.flatMap(({ dnsNames = [] }) => dnsNames).filter((name) => name.endsWith(".whetstone"));
  const lacking = services(objects).filter(
    (pod) =>
      !certificates.some(({ secretName }) => pod.volumes?.some(({ secret }) => secret?.secretName === secretName)),
  );
  return [
    ...(names.length === 8 ? [] : [`${names.length} roles have a certificate, not 8`]),
    ...lacking.map(({ owner }) => `${owner}: its secret is nobody's`),
    ...made(objects, ["Secret", "Job"]),
  ];
}

function made(objects: readonly ChartObject[], kinds: readonly string[]): string[] {
  const found = kinds.flatMap((kind) => named(objects, kind).map(({ metadata }) => `makes ${kind} ${metadata.name}`));
  return found.filter((complaint) => !complaint.startsWith("makes Job rel-uninstall"));
}

function threeServers(objects: readonly ChartObject[]): string[] {
  const set = named(objects, "StatefulSet").find(({ metadata }) => metadata.name === "rel-nats");
  const spec = set?.["spec"] as { replicas: number; podManagementPolicy: string } | undefined;
  const text = JSON.stringify(objects);
  const expected: readonly (readonly [boolean, string])[] = [
    [spec?.replicas === 3, "NATS has not three servers"],
    [spec?.podManagementPolicy === "Parallel", "servers start one after the other"],
    [(text.match(/rel-nats-\d\.rel-nats-headless:6222/g) ?? []).length === 3, "not three routes"],
    [text.includes('{"name":"WHETSTONE_STREAM_REPLICAS","value":"3"}'), "streams have not three copies"],
    [named(objects, "PodDisruptionBudget").length === 1, "no budget"],
  ];
  return expected.filter(([holds]) => !holds).map(([, complaint]) => complaint);
}

function externalNats(objects: readonly ChartObject[]): string[] {
  const users = services(objects).filter((pod) => pod.volumes?.some(({ secret }) => secret?.secretName === "mine"));
  const roles = users.map(({ owner }) => roleOf(owner)).toSorted();
  return [
    ...(roles.join() === "controller,orchestrator,trainer" ? [] : [`credentials are with ${roles.join()}`]),
    ...objects.filter(({ metadata }) => /rel-nats/.test(metadata.name)).map(({ metadata }) => `makes ${metadata.name}`),
  ];
}

/** Trainers and engines have its keys and a way to it; controller and orchestrators where episodes are there; nobody else. */
function storeReached(hasEpisodes: boolean): Check {
  const [more, reachingToo] = hasEpisodes ? [BODIES.map((name) => `Deployment/rel-${name}`), BODIES] : [[], []];
  const expected = [...more, "Deployment/rel-trainer", "InferenceFleet/default", "PodTemplate/rel-trainer-verl-head"];
  const allowed = [...reachingToo, "engine", "trainer", "trainer-verl"].map((name) => `rel-${name}`).toSorted();
  return (objects) => {
    const having = (text: string): string[] =>
      objects
        .filter((object) => JSON.stringify(object).includes(text))
        .map(({ kind, metadata }) => `${kind}/${metadata.name}`)
        .toSorted();
    const owners = having('"secretKeyRef":{"name":"mine"');
    const putting = having('"name":"WHETSTONE_STORE_EPISODES","value":"true"');
    const trusting = having('"mountPath":"/object-store"');
    const open = named(objects, "NetworkPolicy").filter(({ spec }) => /"port":9000/.test(JSON.stringify(spec)));
    const reaching = open.map(({ metadata }) => metadata.name).toSorted();
    return [
      ...(owners.join() === expected.join() ? [] : [`keys of the object store are with ${owners.join()}`]),
      ...(reaching.join() === allowed.join() ? [] : [`it is reached by ${reaching.join()}`]),
      ...(putting.join() === (hasEpisodes ? "Deployment/rel-orchestrator" : "")
        ? []
        : [`episodes are put there by ${putting.join()}`]),
      ...(!hasEpisodes || trusting.join() === expected.join() ? [] : [`its authorities are with ${trusting.join()}`]),
    ];
  };
}

/** The trainer serves weights under a name that is its Service's, at a port that engines may reach. */
function enginesReachWeights(objects: readonly ChartObject[]): string[] {
  const trainer = podsOf(objects).find(({ owner }) => owner === "Deployment/rel-trainer");
  const args = trainer?.containers.flatMap(({ args = [] }) => args) ?? [];
  const service = named(objects, "Service").find(({ metadata }) => metadata.name === "rel-trainer");
  const open = named(objects, "NetworkPolicy").filter(({ spec }) => /"port":7401/.test(JSON.stringify(spec)));
  const reaching = open
    .map(({ metadata }) => metadata.name)
    .toSorted()
    .join();
  return [
    ...(args.includes("--weights-url=https://rel-trainer:7401")
      ? []
      : ["the trainer does not say where it serves weights"]),
    ...(/"port":7401/.test(JSON.stringify(service)) ? [] : ["the trainer's Service has no port for weights"]),
    ...(reaching === "rel-engine,rel-trainer" ? [] : [`policies for weights: ${reaching}`]),
  ];
}

/** The kubelet has none. */
function probesNeedNoCertificate(objects: readonly ChartObject[]): string[] {
  return services(objects).flatMap((pod) =>
    pod.containers.flatMap((container) =>
      ["startupProbe", "readinessProbe", "livenessProbe"].flatMap((name) => {
        const probe = container[name] as { grpc?: { port: unknown }; httpGet?: { port: unknown } } | undefined;
        const port = probe?.grpc?.port ?? probe?.httpGet?.port;
        return port === undefined || [9090, 8002, "monitor", "health", "metrics"].includes(port as string | number)
          ? []
          : [`${pod.owner}: ${name} asks port ${JSON.stringify(port)}`];
      }),
    ),
  );
}

/** Whether the trainer, and nobody else, is told that it may. */
function runsCodeOfJobs(isAllowed: boolean): Check {
  return (objects) => {
    const told = podsOf(objects).filter(({ containers }) =>
      containers.some(({ env = [] }) =>
        env.some(({ name, value }) => name === "WHETSTONE_ALGORITHM_MODULES" && value === "1"),
      ),
    );
    const roles = told.map(({ owner }) => roleOf(owner)).join();
    return roles === (isAllowed ? "trainer" : "") ? [] : [`code of jobs is run by: ${roles || "nobody"}`];
  };
}
