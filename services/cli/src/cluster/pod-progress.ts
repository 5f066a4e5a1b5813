// SPDX-License-Identifier: Apache-2.0
/** What a pod is doing, in a word, and what to do when it cannot go on. */

/** The part of a Kubernetes Pod that tells. */
export interface PodFacts {
  readonly metadata?: { readonly name?: string; readonly deletionTimestamp?: unknown };
  readonly status?: {
    readonly phase?: string;
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly reason?: string;
      readonly message?: string;
    }[];
    readonly initContainerStatuses?: readonly ContainerFacts[];
    readonly containerStatuses?: readonly ContainerFacts[];
  };
}

interface ContainerFacts {
  readonly name?: string;
  readonly restartCount: number;
  readonly state?: { readonly waiting?: { readonly reason?: string; readonly message?: string } };
  readonly lastState?: { readonly terminated?: { readonly reason?: string; readonly exitCode?: number } };
}

export interface PodView {
  readonly name: string;
  readonly ready: boolean;
  /** "ready", "starting", or why not: "ImagePullBackOff". */
  readonly doing: string;
  readonly restarts: number;
  /** It will not become ready by waiting. */
  readonly advice?: string;
}

interface Why {
  readonly reason: string;
  readonly message: string;
}

/** A process that ends once, because something it needs was not there yet, is nothing to tell of. */
const MANY_ENDS = 2;
const ORDINARY = new Set(["ContainerCreating", "PodInitializing"]);

export function podView({ metadata, status = {} }: PodFacts): PodView {
  const { containerStatuses = [] } = status;
  const ready = isReady(status);
  const stuck = ready ? undefined : whyStuck(status);
  const advice = ready ? undefined : (adviceAfterEnds(status) ?? adviceFor(stuck));
  return {
    name: metadata?.name ?? "",
    ready,
    doing: ready ? "ready" : (stuck?.reason ?? "starting"),
    restarts: containerStatuses.reduce((sum, { restartCount }) => sum + restartCount, 0),
    ...(advice === undefined ? {} : { advice }),
  };
}

function isReady({ conditions = [] }: NonNullable<PodFacts["status"]>): boolean {
  return conditions.some(({ type, status }) => type === "Ready" && status === "True");
}

function whyStuck(status: NonNullable<PodFacts["status"]>): Why | undefined {
  const { conditions = [], containerStatuses = [], initContainerStatuses = [] } = status;
  const waiting = [...initContainerStatuses, ...containerStatuses].flatMap(({ state }) => state?.waiting ?? []);
  const homeless = conditions.filter(({ type, status: is }) => type === "PodScheduled" && is === "False");
  const why = [...waiting, ...homeless].find(({ reason = "" }) => reason !== "" && !ORDINARY.has(reason));
  return why && { reason: why.reason ?? "", message: why.message ?? "" };
}

function adviceFor({ reason: doing, message }: Why = { reason: "", message: "" }): string | undefined {
  if (/^(ErrImage|ImagePull|InvalidImage)/.test(doing))
    return `the cluster cannot get its image (${message}): build with \`make images\`, and name the registry with --set images.registry=…`;
  if (doing === "Unschedulable") return `no node takes it: ${message}`;
  if (doing === "CrashLoopBackOff" || doing === "CreateContainerConfigError")
    return `its process does not start (${message}): look at \`kubectl logs\``;
  return undefined;
}

/** Between two ends a container runs, and looks as if it were only starting. */
function adviceAfterEnds(status: NonNullable<PodFacts["status"]>): string | undefined {
  const { containerStatuses = [], initContainerStatuses = [] } = status;
  const ending = [...initContainerStatuses, ...containerStatuses].find(({ restartCount }) => restartCount >= MANY_ENDS);
  const { reason, exitCode } = ending?.lastState?.terminated ?? {};
  if (!ending || reason === undefined) return undefined;
  const how = reason === "OOMKilled" ? "OOMKilled: raise its memory limit" : `${reason}, exit code ${exitCode}`;
  return `container ${ending.name} has ended ${ending.restartCount} times (${how}): look at \`kubectl logs --previous\``;
}
