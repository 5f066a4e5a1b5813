// SPDX-License-Identifier: Apache-2.0
/** What the chart calls its objects (charts/whetstone/templates/_helpers.tpl). */

export const RELEASE_LABEL = "app.kubernetes.io/instance";
/** The service of every installation's controller. */
export const CONTROLLER_LABELS = "app.kubernetes.io/name=whetstone,app.kubernetes.io/component=controller";
export const CONTROLLER_PORT = 9083;
export const RELEASE_DEFAULT = "whetstone";

/** `controller` of release `x` is `x-controller`. */
export function objectName(release: string, part: string): string {
  return `${release.slice(0, 40).replace(/-$/, "")}-${part}`;
}

export interface ClusterChoice {
  readonly context: string;
  /** Default: the context's own, else "default". */
  readonly namespace?: string;
  /** Default: the only one of the namespace. */
  readonly release?: string;
}

export interface Installed {
  readonly namespace: string;
  readonly release: string;
}

/** Which of the releases that were found is meant, or what the user should do. */
export function chooseRelease(
  found: readonly Installed[],
  choice: { readonly namespace: string; readonly context: string; readonly release?: string },
): Installed | { readonly advice: string } {
  const here = found.filter(({ namespace }) => namespace === choice.namespace);
  const named = choice.release === undefined ? here : here.filter(({ release }) => release === choice.release);
  if (named.length === 1) return named[0] as Installed;
  const list = (installed: readonly Installed[]): string => installed.map(({ release }) => release).join(", ");
  if (named.length > 1)
    return {
      advice: `namespace ${choice.namespace} has ${list(named)}: choose one with --release (WHETSTONE_RELEASE)`,
    };
  if (here.length > 0)
    return { advice: `namespace ${choice.namespace} has no release ${choice.release}, but ${list(here)}` };
  const elsewhere = [...new Set(found.map(({ namespace }) => namespace))].sort();
  const hint =
    elsewhere.length > 0
      ? `there is one in ${elsewhere.join(", ")}: name it with --namespace (WHETSTONE_NAMESPACE)`
      : `install it with \`whet install --kube --context ${choice.context} --namespace ${choice.namespace}\``;
  return { advice: `Whetstone is not in namespace ${choice.namespace} of ${choice.context}; ${hint}` };
}
