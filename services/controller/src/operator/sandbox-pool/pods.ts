// SPDX-License-Identifier: Apache-2.0
/** Pods of a sandbox pool, and facts about them. Pure. */
import { createHash } from "node:crypto";
import { type Draft, ownedBy, type Pod, type Stored } from "@whetstone/kube";
import { SANDBOX_POOLS, type SandboxPoolSpec, type StoredSandboxPool } from "./schema.ts";

export const SANDBOX_LABELS = {
  managedBy: "app.kubernetes.io/managed-by",
  pool: "whetstone.dev/sandbox-pool",
  /** Hash of everything that a pod was made from. */
  template: "whetstone.dev/template",
  /** The claim that it was given to. */
  claim: "whetstone.dev/sandbox-claim",
} as const;

export const CLAIM_NOTES = {
  /** The claim that it was made or chosen for, where agent-sandbox did: it sets no labels of ours, only notes. */
  claim: "whetstone.dev/sandbox-claim",
  until: "whetstone.dev/claimed-until",
  owner: "whetstone.dev/claim-owner",
  instance: "whetstone.dev/claim-instance",
} as const;

export const DAEMON_PORT = 7443;
const IDENTITY = "WHETSTONE_SANDBOX_IDENTITY";
const USER = 10_001;
/** Where the copies of the image's folders are made. */
const COPIES = "/whetstone/folders";
/** For the daemon, and for what keeps commands. */
const DAEMON_MIB = 64;

/** PEM. The daemon shows the certificate, and so does who may claim the pod: nobody else has the key. */
export interface PodIdentity {
  readonly key: string;
  readonly certificate: string;
}

export interface Claim {
  readonly id: string;
  /** Milliseconds since 1970. */
  readonly until: number;
  /** Name of the pod that claimed it, and its process. Empty: not known. */
  readonly owner: string;
  readonly instance: string;
}

export interface SandboxPod {
  readonly name: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly pool: string;
  readonly template: string;
  /** Empty: none yet. */
  readonly ip: string;
  readonly createdAt: number;
  readonly startedAt: number;
  readonly ready: boolean;
  readonly terminating: boolean;
  readonly ended: PodEnd | undefined;
  readonly claim: Claim | undefined;
  /** It was handed over: a pod that agent-sandbox makes in the place of one that went was not. */
  readonly given: boolean;
  /** It belongs to an agent-sandbox's Sandbox, and is made anew when it alone is deleted. */
  readonly ofSandbox: boolean;
  /** Why it will not be ready by itself. Empty: nothing. */
  readonly trouble: string;
}

export interface PodEnd {
  /** Milliseconds since 1970. */
  readonly at: number;
  /** `OOMKilled`, `DeadlineExceeded`, `Evicted`, `Completed`, `Error`. */
  readonly reason: string;
  readonly message: string;
}

export function sandboxTemplateHash(spec: SandboxPoolSpec, daemonImage: string): string {
  const { warm: _, max: _max, ttlSeconds: _ttl, provider: _provider, egress, ...rest } = spec;
  const text = JSON.stringify([rest, egress.length > 0, daemonImage]);
  return createHash("sha256").update(text).digest("hex").slice(0, 10);
}

/** Names are by ordinal, so that a stale cache makes no pod twice. */
export function warmPodName(pool: string, ordinal: number): string {
  return `sandbox-${pool}-${ordinal}`;
}

/** A pod that is made for one claim: asked again, it is the same one. */
export function coldPodName(pool: string, claim: string): string {
  return `sandbox-${pool}-c${createHash("sha256").update(claim).digest("hex").slice(0, 12)}`;
}

export interface SandboxPodOptions {
  readonly name: string;
  readonly daemonImage: string;
  readonly identity: PodIdentity;
  readonly claim?: Claim | undefined;
}

export function sandboxPod(
  pool: StoredSandboxPool,
  { name, daemonImage, identity, claim }: SandboxPodOptions,
): Draft<Pod> {
  return {
    metadata: {
      name,
      labels: { ...podLabels(pool, daemonImage), ...(claim && claimLabels(claim)) },
      annotations: { ...(claim && claimNotes(claim)) },
      ownerReferences: [ownedBy(pool, SANDBOX_POOLS)],
    },
    spec: podSpec(pool.spec, daemonImage, identity),
  } as Draft<Pod>;
}

export function podLabels({ metadata, spec }: StoredSandboxPool, daemonImage: string): Record<string, string> {
  return {
    [SANDBOX_LABELS.managedBy]: "whetstone",
    [SANDBOX_LABELS.pool]: metadata.name,
    [SANDBOX_LABELS.template]: sandboxTemplateHash(spec, daemonImage),
  };
}

export function claimLabels({ id }: Claim): Record<string, string> {
  return { [SANDBOX_LABELS.claim]: id };
}

export function claimNotes({ until, owner, instance }: Claim): Record<string, string> {
  return {
    [CLAIM_NOTES.until]: new Date(until).toISOString(),
    [CLAIM_NOTES.owner]: owner,
    [CLAIM_NOTES.instance]: instance,
  };
}

const SECURITY = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ["ALL"] },
};

export function podSpec(spec: SandboxPoolSpec, daemonImage: string, identity: PodIdentity): object {
  const { image, imagePullPolicy, imagePullSecrets = [], egress, nodeSelector, tolerations, runtimeClassName } = spec;
  const program = { ...mount("program", "/whetstone/bin"), readOnly: true };
  return {
    restartPolicy: "Never",
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    hostname: "sandbox",
    terminationGracePeriodSeconds: 1,
    // Who may connect to nowhere has nothing to look up, and is told no address of the cluster.
    ...(egress.length === 0 && { dnsPolicy: "None", dnsConfig: { nameservers: ["127.0.0.1"] } }),
    ...(runtimeClassName !== undefined && { runtimeClassName }),
    ...(nodeSelector && { nodeSelector }),
    ...(tolerations && { tolerations }),
    ...(imagePullSecrets.length > 0 && { imagePullSecrets: imagePullSecrets.map((name) => ({ name })) }),
    securityContext: {
      runAsNonRoot: true,
      runAsUser: USER,
      runAsGroup: USER,
      seccompProfile: { type: "RuntimeDefault" },
    },
    initContainers: [
      {
        name: "install",
        image: daemonImage,
        imagePullPolicy: "IfNotPresent",
        command: ["/sandboxd", "install", "/whetstone/bin"],
        env: [{ name: IDENTITY, value: JSON.stringify(identity) }],
        securityContext: SECURITY,
        resources: resources(0.1, DAEMON_MIB),
        volumeMounts: [mount("program", "/whetstone/bin"), mount("identity", "/whetstone/identity")],
      },
      ...(spec.imageFolders.length > 0 ? [copyingContainer(spec, program)] : []),
    ],
    containers: [
      {
        name: "sandbox",
        image,
        imagePullPolicy,
        command: ["/whetstone/bin/sandboxd", "serve"],
        workingDir: "/",
        securityContext: SECURITY,
        resources: resources(spec.cpus, spec.memoryMiB + DAEMON_MIB),
        ports: [{ name: "daemon", containerPort: DAEMON_PORT }],
        readinessProbe: { tcpSocket: { port: DAEMON_PORT }, periodSeconds: 1, failureThreshold: 3 },
        volumeMounts: [
          program,
          mount("identity", "/whetstone/identity"),
          mount("files", "/workspace", "workspace"),
          mount("files", "/tmp", "tmp"),
          ...spec.imageFolders.map((folder, index) => mount("files", folder, `folders/${index}`)),
        ],
      },
    ],
    volumes: [
      { name: "program", emptyDir: { sizeLimit: "32Mi" } },
      { name: "identity", emptyDir: { medium: "Memory", sizeLimit: "1Mi" } },
      { name: "files", emptyDir: { medium: "Memory", sizeLimit: `${spec.diskMiB}Mi` } },
    ],
  };
}

/** Only a container of the image itself sees what lies in its folders. */
function copyingContainer({ image, imagePullPolicy, imageFolders, cpus, memoryMiB }: SandboxPoolSpec, program: object) {
  const copies = imageFolders.map((folder, index) => ({
    folder,
    copy: `${COPIES}/${index}`,
    part: `folders/${index}`,
  }));
  return {
    name: "folders",
    image,
    imagePullPolicy,
    command: ["/whetstone/bin/sandboxd", "copy-folders", ...copies.flatMap(({ folder, copy }) => [folder, copy])],
    workingDir: "/",
    terminationMessagePolicy: "FallbackToLogsOnError",
    securityContext: SECURITY,
    resources: resources(cpus, memoryMiB + DAEMON_MIB),
    volumeMounts: [program, ...copies.map(({ copy, part }) => mount("files", copy, part))],
  };
}

function mount(
  name: string,
  mountPath: string,
  subPath?: string,
): { readonly name: string; readonly mountPath: string } {
  return { name, mountPath, ...(subPath !== undefined && { subPath }) };
}

function resources(cpus: number, memoryMiB: number): object {
  const milli = Math.max(1, Math.round(cpus * 1000));
  return {
    limits: { cpu: `${milli}m`, memory: `${memoryMiB}Mi`, "ephemeral-storage": "64Mi" },
    requests: { cpu: `${Math.ceil(milli / 10)}m`, memory: `${memoryMiB}Mi`, "ephemeral-storage": "64Mi" },
  };
}

/** @throws Error for a pod that was not made here */
export function identityOf({ metadata, spec }: Stored<Pod>): PodIdentity {
  return identityIn(spec, metadata.name);
}

export function identityIn(spec: Pod["spec"], where: string): PodIdentity {
  const text = spec?.initContainers?.[0]?.env?.find(({ name }) => name === IDENTITY)?.value;
  if (text === undefined) throw new Error(`${where} has no identity`);
  return JSON.parse(text) as PodIdentity;
}

/** Undefined for a pod that belongs to no pool. */
export function sandboxFact(pod: Stored<Pod>): SandboxPod | undefined {
  const { name, uid, resourceVersion, labels = {}, creationTimestamp = "", deletionTimestamp } = pod.metadata;
  const pool = labels[SANDBOX_LABELS.pool];
  if (pool === undefined) return undefined;
  const status = pod.status ?? {};
  const createdAt = Date.parse(creationTimestamp) || 0;
  const ready = status.conditions?.some(({ type, status }) => type === "Ready" && status === "True") ?? false;
  return {
    ...{ name, uid, resourceVersion, pool, ready, createdAt },
    template: labels[SANDBOX_LABELS.template] ?? "",
    ip: status.podIP ?? "",
    startedAt: Date.parse(status.startTime ?? "") || createdAt,
    terminating: deletionTimestamp !== undefined,
    ended: endOf(status, createdAt),
    claim: claimOf(pod),
    given: labels[SANDBOX_LABELS.claim] !== undefined,
    ofSandbox: isOfSandbox(pod),
    trouble: troubleOf(status),
  };
}

function isOfSandbox({ metadata: { ownerReferences = [] } }: Stored<Pod>): boolean {
  return ownerReferences.some(({ apiVersion }) => apiVersion.startsWith("agents.x-k8s.io/"));
}

function claimOf({ metadata: { labels = {}, annotations = {} } }: Stored<Pod>): Claim | undefined {
  const id = labels[SANDBOX_LABELS.claim] ?? annotations[CLAIM_NOTES.claim];
  if (id === undefined) return undefined;
  const { [CLAIM_NOTES.owner]: owner = "", [CLAIM_NOTES.instance]: instance = "" } = annotations;
  return { id, owner, instance, until: Date.parse(annotations[CLAIM_NOTES.until] ?? "") || 0 };
}

type Status = NonNullable<Pod["status"]>;

/** The next pod of the same template fails in the same way. */
function initFailure({ initContainerStatuses = [] }: Status): string {
  const failed = initContainerStatuses.find(({ state }) => (state?.terminated?.exitCode ?? 0) !== 0);
  if (!failed?.state?.terminated) return "";
  const { message = "", exitCode } = failed.state.terminated;
  return `${INIT_FAILED}: ${message.trim() || `${failed.name} ended with ${exitCode}`}`;
}

function endOf({ phase, reason, message, containerStatuses = [] }: Status, createdAt: number): PodEnd | undefined {
  const ended = containerStatuses.map(({ state }) => state?.terminated).find((each) => each !== undefined);
  if (ended) {
    const { finishedAt = "", exitCode, reason: why = "Error" } = ended;
    const at = Date.parse(finishedAt) || createdAt;
    return { at, reason: reason ?? why, message: message ?? `its container ended with ${exitCode}` };
  }
  const isOver = phase === "Failed" || phase === "Succeeded";
  return isOver ? { at: createdAt, reason: reason ?? "Failed", message: message ?? "it ended" } : undefined;
}

/** Why it will not be ready by itself. */
function troubleOf(status: Status): string {
  const { conditions = [], containerStatuses = [], initContainerStatuses = [] } = status;
  const scheduled = conditions.find(({ type }) => type === "PodScheduled");
  if (scheduled?.status === "False") return `${scheduled.reason ?? "Unschedulable"}: ${scheduled.message ?? ""}`;
  const all = [...initContainerStatuses, ...containerStatuses].map(({ state }) => state?.waiting);
  const bad = all.find((each) => each?.reason !== undefined && !ORDINARY.has(each.reason));
  return bad ? `${bad.reason}: ${bad.message ?? ""}` : initFailure(status);
}

const INIT_FAILED = "InitContainerFailed";

/** Whether that trouble stays, in every pod of the pool, until the pool is changed. */
export function isForGood(trouble: string): boolean {
  return FOR_GOOD.test(trouble);
}

const FOR_GOOD = new RegExp(`^(ErrImage|ImagePull|InvalidImage|CreateContainer|${INIT_FAILED})`, "u");
const ORDINARY = new Set(["PodInitializing", "ContainerCreating"]);
