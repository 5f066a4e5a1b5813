// SPDX-License-Identifier: Apache-2.0

/** What a service is told, from WHETSTONE_* variables. */
export interface StoreSettings {
  readonly objectStore?: string | undefined;
  readonly objectStoreStyle?: "path" | "virtual" | undefined;
}

export interface StoreLocation {
  /** "s3://bucket" or "s3://bucket/prefix", without a slash at its end. */
  readonly url: string;
  /** Of its URLs; absent: path where there is an endpoint of one's own. */
  readonly style: "path" | "virtual" | undefined;
  /** AWS_* variables. */
  readonly env: NodeJS.ProcessEnv;
}

/** Undefined: the service has no object store. */
export function storeLocation(settings: StoreSettings, env: NodeJS.ProcessEnv): StoreLocation | undefined {
  const { objectStore, objectStoreStyle } = settings;
  return objectStore === undefined ? undefined : { url: objectStore.replace(/\/$/, ""), style: objectStoreStyle, env };
}

/** "s3://bucket/a/b" → bucket "bucket", prefix "a/b"; without a prefix it is "". */
export function parseLocation(url: string): { readonly bucket: string; readonly prefix: string } {
  const { host, pathname } = new URL(url);
  return { bucket: host, prefix: pathname.replace(/^\/|\/$/g, "") };
}
