// SPDX-License-Identifier: Apache-2.0
export type { AuditResult } from "./audit-facts.ts";
export { type AuditDeps, auditJob } from "./audit-reader.ts";
export type { Violation as AuditViolation } from "./audit-report.ts";
