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
  readonly restartCount: number;
  readonly state?: { readonly waiting?: { readonly reason?: string; readonly message?: string } };
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

const ORDINARY = new Set(["ContainerCreating", "PodInitializing"]);

export function podView({ metadata, status = {} }: PodFacts): PodView {
  const { conditions = [], containerStatuses = [] } = status;
  const ready = conditions.some(({ type, status: is }) => type === "Ready" && is === "True");
  const stuck = ready ? undefined : whyStuck(status);
  const advice = stuck && adviceFor(stuck.reason, stuck.message);
  return {
    name: metadata?.name ?? "",
    ready,
    doing: ready ? "ready" : (stuck?.reason ?? "starting"),
    restarts: containerStatuses.reduce((sum, { restartCount }) => sum + restartCount, 0),
    ...(advice === undefined ? {} : { advice }),
  };
}

function whyStuck(status: NonNullable<PodFacts["status"]>): { reason: string; message: string } | undefined {
  const { conditions = [], containerStatuses = [], initContainerStatuses = [] } = status;
  const waiting = [...initContainerStatuses, ...containerStatuses].flatMap(({ state }) => state?.waiting ?? []);
  const homeless = conditions.filter(({ type, status: is }) => type === "PodScheduled" && is === "False");
  const why = [...waiting, ...homeless].find(({ reason = "" }) => reason !== "" && !ORDINARY.has(reason));
  return why && { reason: why.reason ?? "", message: why.message ?? "" };
}

function adviceFor(doing: string, message: string): string | undefined {
  if (/^(ErrImage|ImagePull|InvalidImage)/.test(doing))
    return `the cluster cannot get its image (${message}): build with \`make images\`, and name the registry with --set images.registry=…`;
  if (doing === "Unschedulable") return `no node takes it: ${message}`;
  if (doing === "CrashLoopBackOff" || doing === "CreateContainerConfigError")
    return `its process does not start (${message}): look at \`kubectl logs\``;
  return undefined;
}
