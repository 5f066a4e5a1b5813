// SPDX-License-Identifier: Apache-2.0
// The cluster of KUBECONFIG for tests: a namespace of one's own, and the present custom resource definitions.
import { execFile, execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { type Kube, NAMESPACES, openKube } from "@whetstone/kube";
import { silentLogger } from "@whetstone/telemetry";

const ROOT = resolve(import.meta.dirname, "../..");
const run = promisify(execFile);

/** What `kubectl` said; it never throws. */
export interface KubectlAnswer {
  readonly code: number;
  readonly text: string;
}

export interface TestCluster extends AsyncDisposable {
  readonly kube: Kube;
  readonly namespace: string;
  /** `kubectl -n <namespace> …`; an object goes to its standard input. */
  kubectl(args: readonly string[], object?: object): Promise<KubectlAnswer>;
}

export async function openTestCluster(name: string): Promise<TestCluster> {
  const namespace = `b-${name}-${process.pid}`;
  const kube = openKube({ logger: silentLogger, namespace });
  await kube.create(NAMESPACES, { metadata: { name: namespace } });
  return {
    kube,
    namespace,
    kubectl: (args, object) => kubectl(["-n", namespace, ...args], object),
    async [Symbol.asyncDispose]() {
      await kube.delete(NAMESPACES, namespace);
      kube[Symbol.dispose]();
    },
  };
}

/** The definitions as they are in the working tree, or one of them. */
export function installDefinitions(only?: string): void {
  const which = only === undefined ? [] : ["-s", `templates/${only}.yaml`];
  const text = execFileSync("helm", ["template", "crds", join(ROOT, "charts/whetstone-crds"), ...which]);
  const args = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
  execFileSync("kubectl", args, { input: text, stdio: ["pipe", "ignore", "inherit"] });
}

/** A kubeconfig of a part's service account with exactly the rights that the chart gives it. @returns its path */
export function kubeconfigOf(
  part: "controller" | "uninstall",
  namespace: string,
  folder: string,
  values: readonly string[] = [],
): string {
  const files = part === "controller" ? ["rbac", "serviceaccounts", "tls"] : ["uninstall"];
  const only = files.flatMap((file) => ["-s", `templates/${file}.yaml`]);
  const chart = join(ROOT, "charts/whetstone");
  const flags = [...only, ...values.flatMap((value) => ["--set", value])];
  const text = execFileSync("helm", ["template", "test", chart, "-n", namespace, ...flags], { encoding: "utf8" });
  const rendered = text
    .split(/^---$/m)
    .filter((object) => !/^kind: Job$/m.test(object))
    .join("---");
  execFileSync("kubectl", ["-n", namespace, "apply", "-f", "-"], {
    input: rendered,
    stdio: ["pipe", "ignore", "inherit"],
  });
  const ask = (...args: string[]): string => execFileSync("kubectl", args, { encoding: "utf8" }).trim();
  const token = ask("-n", namespace, "create", "token", `test-${part}`);
  const { clusters } = JSON.parse(ask("config", "view", "--raw", "--minify", "--flatten", "-o", "json")) as {
    clusters: [{ cluster: object }];
  };
  const context = { cluster: "c", user: "controller", namespace };
  const path = join(folder, `${part}.json`);
  const config = {
    ...{ apiVersion: "v1", kind: "Config", "current-context": "test" },
    clusters: [{ name: "c", cluster: clusters[0].cluster }],
    users: [{ name: "controller", user: { token } }],
    contexts: [{ name: "test", context }],
  };
  writeFileSync(path, JSON.stringify(config), { mode: 0o600 });
  return path;
}

/** Those of a part's rights that are the cluster's: the others go with the namespace. */
export function removeRights(namespace: string): void {
  const name = `${namespace}-test-controller-kueue`;
  execFileSync("kubectl", ["delete", "clusterrole,clusterrolebinding", name, "--ignore-not-found"], {
    stdio: ["ignore", "ignore", "inherit"],
  });
}

async function kubectl(args: readonly string[], object?: object): Promise<KubectlAnswer> {
  const started = run("kubectl", [...args, ...(object ? ["-f", "-"] : [])]);
  if (object) started.child.stdin?.end(JSON.stringify(object));
  try {
    const { stdout, stderr } = await started;
    return { code: 0, text: stdout + stderr };
  } catch (error) {
    const { code, stdout, stderr } = error as { code?: number; stdout?: string; stderr?: string };
    return { code: code ?? 1, text: `${stdout ?? ""}${stderr ?? ""}` };
  }
}
