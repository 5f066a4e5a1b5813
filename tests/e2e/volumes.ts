// SPDX-License-Identifier: Apache-2.0
// Small volumes of the test's own, which can be full: each a file system in the memory of the node, behind a
// PersistentVolume that one claim of the release takes. They need a hand on the node (E2E_NODE) and only one of it.
import { command, kubectl } from "./cluster.ts";
import { NAMESPACE, RELEASE } from "./whet.ts";

const NODE = process.env["E2E_NODE"];
const FOLDER = "/tmp/whetstone-e2e";
const FILL = "e2e-fill";
const VOLUME_MIB = 1024;

interface Volume {
  readonly claim: string;
  /** Storage class of nobody, by which the claim finds its volume. */
  readonly storageClass: string;
}

const VOLUMES = {
  data: { claim: `${RELEASE}-data`, storageClass: "e2e-data" },
  nats: { claim: `jetstream-${RELEASE}-nats-0`, storageClass: "e2e-nats" },
} satisfies Record<string, Volume>;
export type VolumeName = keyof typeof VOLUMES;

/** Why there are none here; undefined: there are. */
export const lackVolumes = NODE ? undefined : "E2E_NODE is not set";

/** Makes them anew, before the release. @returns values of the chart */
export function makeVolumes(): string[] {
  if (lackVolumes) return [];
  removeVolumes();
  for (const name of Object.keys(VOLUMES) as VolumeName[]) {
    const at = folderOf(name);
    onNode(`mkdir -p ${at} && mount -t tmpfs -o size=${VOLUME_MIB}m,mode=0777 whetstone-e2e ${at}`);
    command("kubectl", ["create", "-f", "-"], JSON.stringify(objectOf(name)));
  }
  return ["data.storageClass=e2e-data", "nats.persistence.storageClass=e2e-nats"];
}

export function removeVolumes(): void {
  if (lackVolumes) return;
  for (const name of Object.keys(VOLUMES) as VolumeName[]) {
    kubectl("delete", "persistentvolume", VOLUMES[name].storageClass, "--ignore-not-found", "--wait=false");
    onNode(`! mountpoint -q ${folderOf(name)} || umount -l ${folderOf(name)}; rm -rf ${folderOf(name)}`);
  }
}

/** Nothing more can be written to it. */
export function fill(name: VolumeName): void {
  onNode(`head -c ${2 * VOLUME_MIB}M /dev/zero >${folderOf(name)}/${FILL} 2>/dev/null; true`);
}

export function free(name: VolumeName): void {
  onNode(`rm -f ${folderOf(name)}/${FILL}`);
}

/** Does something to the optimizer of a run's newest checkpoint. @param change  shell, of $file */
export function harmOptimizer(uid: string, change: string): void {
  const newest = `ls -d ${folderOf("data")}/runs/${uid}/checkpoints/step-* | sort -V | tail -1`;
  onNode(`file=$(${newest})/optimizer.pt && test -s $file && ${change}`);
}

function objectOf(name: VolumeName): object {
  const { claim, storageClass } = VOLUMES[name];
  return {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name: storageClass },
    spec: {
      storageClassName: storageClass,
      capacity: { storage: "20Gi" }, // As much as the chart asks for: nobody looks.
      accessModes: ["ReadWriteOnce"],
      persistentVolumeReclaimPolicy: "Retain",
      hostPath: { path: folderOf(name) },
      claimRef: { apiVersion: "v1", kind: "PersistentVolumeClaim", namespace: NAMESPACE, name: claim },
    },
  };
}

function folderOf(name: VolumeName): string {
  return `${FOLDER}/${name}`;
}

function onNode(script: string): void {
  command("sh", ["-c", `${NODE} sh -c "$0"`, script]);
}
