// SPDX-License-Identifier: Apache-2.0
/** The user's kubeconfig, with one of its contexts chosen. */
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";

import { KubeConfig } from "@kubernetes/client-node";

import { badInput } from "../cli-error.ts";

/** `--context current` is whichever the file says; a real context of that name wins. */
const CURRENT = "current";

export interface Chosen {
  readonly config: KubeConfig;
  readonly context: string;
  /** Of the context, else "default". */
  readonly namespace: string;
}

/** In a pod the client library takes the service account. */
const SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/** @throws CliError (bad input) when there is no file, it cannot be read, or it has no such context. */
export function chooseContext(name: string, environment: NodeJS.ProcessEnv): Chosen {
  const config = load(environment);
  const contexts = config.getContexts().map((context) => context.name);
  const wanted = name === CURRENT && !contexts.includes(CURRENT) ? config.getCurrentContext() : name;
  if (!contexts.includes(wanted)) {
    const known = contexts.length > 0 ? `it has ${contexts.join(", ")}` : "it has none: set KUBECONFIG";
    throw badInput([{ path: "--context", reason: `the kubeconfig has no context "${wanted}"; ${known}` }]);
  }
  config.setCurrentContext(wanted);
  return { config, context: wanted, namespace: config.getContextObject(wanted)?.namespace || "default" };
}

function load(environment: NodeJS.ProcessEnv): KubeConfig {
  const [first, ...others] = (environment["KUBECONFIG"] ?? "").split(delimiter).filter(Boolean);
  const config = new KubeConfig();
  const file = join(environment["HOME"] || homedir(), ".kube", "config");
  if (first === undefined && !existsSync(file) && !existsSync(SERVICE_ACCOUNT)) throw noConfig(file);
  try {
    if (first === undefined) config.loadFromDefault();
    else config.loadFromFile(first);
    for (const path of others) merge(config, path);
  } catch (error) {
    throw badInput([{ path: "KUBECONFIG", reason: `cannot be read: ${(error as Error).message}` }]);
  }
  return config;
}

/** Where nothing is, the client library makes a cluster up, at a port of this machine. */
function noConfig(file: string): Error {
  const looked = `KUBECONFIG is not set, and ${file} does not exist`;
  return badInput([
    { path: "KUBECONFIG", reason: `there is no kubeconfig: ${looked}. Set KUBECONFIG to the file of your cluster` },
  ]);
}

/** As kubectl does: of a name that several files have, the first one counts. */
function merge(into: KubeConfig, path: string): void {
  const more = new KubeConfig();
  more.loadFromFile(path);
  into.mergeConfig(more, true);
}
