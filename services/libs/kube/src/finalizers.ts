// SPDX-License-Identifier: Apache-2.0
import type { Kube } from "./kube.ts";
import type { KubeObject, ResourceType, Stored } from "./objects.ts";

export function hasFinalizer({ metadata }: Pick<Stored<KubeObject>, "metadata">, finalizer: string): boolean {
  return metadata.finalizers?.includes(finalizer) === true;
}

/** Before anything is made that the garbage collector cannot see. @throws CONFLICT when the object has changed meanwhile */
export async function addFinalizer<T extends KubeObject>(
  kube: Kube,
  type: ResourceType<T>,
  object: Stored<T>,
  finalizer: string,
): Promise<Stored<T>> {
  if (hasFinalizer(object, finalizer)) return object;
  return await setFinalizers(kube, type, object, [...(object.metadata.finalizers ?? []), finalizer]);
}

/** Only after what it stood for is confirmed to be gone. An object that is gone already is no error. */
export async function removeFinalizer<T extends KubeObject>(
  kube: Kube,
  type: ResourceType<T>,
  object: Stored<T>,
  finalizer: string,
): Promise<void> {
  if (!hasFinalizer(object, finalizer)) return;
  const rest = (object.metadata.finalizers ?? []).filter((name) => name !== finalizer);
  await setFinalizers(kube, type, object, rest).catch((error: unknown) => {
    if ((error as { code?: string }).code !== "NOT_FOUND") throw error;
  });
}

/** The list of finalizers is replaced as a whole, so only if nobody has changed the object since it was read. */
function setFinalizers<T extends KubeObject>(
  kube: Kube,
  type: ResourceType<T>,
  { metadata: { name, namespace, uid, resourceVersion } }: Stored<T>,
  finalizers: string[],
): Promise<Stored<T>> {
  return kube.patch(type, name, { metadata: { uid, resourceVersion, finalizers } }, { namespace });
}
