// SPDX-License-Identifier: Apache-2.0
export { openClient } from "./client.ts";
export { parseLocation, type StoreLocation, type StoreSettings, storeLocation } from "./location.ts";
export { ObjectStore } from "./object-store.ts";
