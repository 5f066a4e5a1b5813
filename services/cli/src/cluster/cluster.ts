// SPDX-License-Identifier: Apache-2.0
/** An installation on a Kubernetes cluster, reached with the user's own rights: its controller at a local port. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { ApiException, CoreV1Api } from "@kubernetes/client-node";

import { CliError } from "../cli-error.ts";
import {
  chooseRelease,
  CONTROLLER_LABELS,
  CONTROLLER_PORT,
  type ClusterChoice,
  type Installed,
  objectName,
  RELEASE_LABEL,
} from "./cluster-names.ts";
import { chooseContext } from "./kube-config.ts";
import { openTunnel, type TunnelTarget } from "./pod-tunnel.ts";

export interface Cluster extends AsyncDisposable, Installed {
  /** "127.0.0.1:port" of the controller. */
  readonly endpoint: string;
  /** A folder with ca.crt, tls.crt, tls.key for as long as this is open. Absent: the installation has no TLS. */
  readonly tlsPath?: string;
}

/** @throws CliError saying what to do when there is no such context, no cluster, or no Whetstone in it. */
export async function openCluster(choice: ClusterChoice, environment: NodeJS.ProcessEnv): Promise<Cluster> {
  const { config, context, namespace } = chooseContext(choice.context, environment);
  const api = config.makeApiClient(CoreV1Api);
  const wanted = { ...choice, context, namespace: choice.namespace ?? namespace };
  const installed = await explained(context, findRelease(api, wanted));
  const tlsPath = await explained(context, clientCertificate(api, installed));
  const tunnel = await openTunnel(config, controllerOf(installed));
  return {
    ...installed,
    endpoint: tunnel.address,
    ...(tlsPath === undefined ? {} : { tlsPath }),
    async [Symbol.asyncDispose]() {
      await tunnel[Symbol.asyncDispose]();
      if (tlsPath !== undefined) rmSync(tlsPath, { recursive: true, force: true });
    },
  };
}

async function findRelease(
  api: CoreV1Api,
  choice: { readonly namespace: string; readonly context: string; readonly release?: string },
): Promise<Installed> {
  const here = await api.listNamespacedService({ namespace: choice.namespace, labelSelector: CONTROLLER_LABELS });
  // Who may not look at all namespaces is told less.
  const all =
    here.items.length > 0
      ? here
      : await api.listServiceForAllNamespaces({ labelSelector: CONTROLLER_LABELS }).catch(() => here);
  const found = all.items.map(({ metadata }) => ({
    namespace: metadata?.namespace ?? "",
    release: metadata?.labels?.[RELEASE_LABEL] ?? "",
  }));
  const chosen = chooseRelease(found, choice);
  if ("advice" in chosen) throw new CliError("NOT_INSTALLED", chosen.advice);
  return chosen;
}

function controllerOf({ namespace, release }: Installed): TunnelTarget {
  const selector = `${CONTROLLER_LABELS},${RELEASE_LABEL}=${release}`;
  return { namespace, selector, port: CONTROLLER_PORT };
}

/** The secret that the chart makes for `whet`, as files that only this user can read. */
async function clientCertificate(api: CoreV1Api, { namespace, release }: Installed): Promise<string | undefined> {
  const secret = await api.readNamespacedSecret({ namespace, name: objectName(release, "client") }).catch(unlessAbsent);
  if (!secret?.data) return undefined;
  const folder = mkdtempSync(join(tmpdir(), "whet-tls-"));
  for (const [name, value] of Object.entries(secret.data))
    writeFileSync(join(folder, name), Buffer.from(value, "base64"), { mode: 0o600 });
  return folder;
}

function unlessAbsent(error: unknown): undefined {
  if (error instanceof ApiException && error.code === 404) return undefined;
  throw error;
}

/** The API server's answer in a sentence. */
async function explained<T>(context: string, answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof CliError) throw error;
    if (!(error instanceof ApiException))
      throw new CliError("UNAVAILABLE", `the cluster of context ${context} does not answer: ${reasonOf(error)}`, {
        cause: error,
      });
    const said = (JSON.parse(String(error.body)) as { message?: string }).message ?? `status ${error.code}`;
    throw new CliError("PERMISSION_DENIED", `the cluster of context ${context} refuses: ${said}`, { cause: error });
  }
}

function reasonOf(error: unknown): string {
  const { message, cause } = error as Error;
  return cause instanceof Error ? cause.message : message;
}
