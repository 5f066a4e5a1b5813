// SPDX-License-Identifier: Apache-2.0
import type { Mend } from "../mend.ts";

const STORE = "python-trainer/tests/store/test_store.py";
const ENGINE = "python-trainer/tests/engine/test_stored.py";
const TRAINER = "python-trainer/tests/trainer/test_stored.py";
const AWAY = "python-trainer/tests/trainer/test_store_away.py";
const RUN = "python-trainer/src/whetstone_trainer/weights/stored_run.py";

const DELETION = "python-trainer/tests/trainer/test_stored_deletion.py";
const OWN = "python-trainer/tests/store/test_own_data.py";
const OWN_DATA = "python-trainer/src/whetstone_store/own_data.py";

const LOST = "A trainer lost its disk, with run folder and checkpoints";
const DAMAGED = "An object in the store was damaged, cut short or gone";
const FAILING = "The object store was full, away, silent, or refused the key";
const DELETED = "The object store, or the trainer, was away while a job was deleted";
const FETCHED = "A model that trainer or engine fetch by digest broke off, arrived damaged, or the controller was away";

export const OBJECT_STORE: readonly Mend[] = [
  {
    row: LOST,
    without: "the checkpoints in the store",
    file: "python-trainer/src/whetstone_trainer/service/recovery.py",
    find: "*(self._stored.steps() if self._stored else ())",
    replace: "*()",
    test: TRAINER,
    only: "a_lost_disk_costs_nothing",
  },
  {
    row: LOST,
    without: "the wait for the copy of the checkpoint before",
    file: "python-trainer/src/whetstone_trainer/service/run.py",
    find: "            self._copies.wait(on_progress)\n        commit.write(on_progress)\n",
    replace: "            pass\n        commit.write(on_progress)\n",
    test: AWAY,
    only: "the_next_checkpoint_waits",
  },
  {
    row: LOST,
    without: "the version that engines may serve, which is taken over",
    file: "python-trainer/src/whetstone_trainer/service/commit.py",
    find: "        self._bring(version)\n",
    replace: "",
    test: TRAINER,
    only: "steps_after_the_copy",
  },
  {
    row: LOST,
    without: "the last checkpoint, which is there before its step is done",
    file: "python-trainer/src/whetstone_trainer/service/run.py",
    find: "            if self._copies is not None:\n                self._copies.wait(on_progress)\n",
    replace: "",
    test: AWAY,
    only: "the_last_checkpoint",
  },
  {
    row: LOST,
    without: "the order of manifest and files",
    file: RUN,
    find: "        for name, _, digest in missing:\n",
    replace: "        self._store.put(end, text)\n        for name, _, digest in missing:\n",
    test: TRAINER,
    only: "a_version_is_there_once",
  },
  {
    row: DAMAGED,
    without: "the digest of what comes out of the store",
    file: RUN,
    find: "        if digest.hexdigest() != expected:\n",
    replace: "        if False:\n",
    test: TRAINER,
    only: "a_damaged_copy",
  },
  {
    row: DAMAGED,
    without: "the damaged version, which is written anew",
    file: "python-trainer/src/whetstone_trainer/service/commit.py",
    find: "            patiently_ask(lambda: stored.disown_weights(version), _telling(self.on_progress))\n",
    replace: "",
    test: TRAINER,
    only: "a_damaged_copy",
  },
  {
    row: DAMAGED,
    without: "the length of an object",
    file: "python-trainer/src/whetstone_store/transfer.py",
    find: "_GONE = frozenset((404, _BEYOND))",
    replace: "_GONE = frozenset((404,))",
    test: TRAINER,
    only: "a_damaged_copy",
  },
  {
    row: DAMAGED,
    without: "the version that the trainer writes again",
    file: RUN,
    find: "        self.disown_weights(version)\n        self.put_weights(version)\n",
    replace: "        self.put_weights(version)\n",
    test: TRAINER,
    only: "what_engines_find_damaged",
  },
  {
    row: DAMAGED,
    without: "the repair that engines' refusals ask for",
    file: "services/controller/src/fleet/policy-serving.ts",
    find: "    if (this.#attempts.isRefused(engines, key)) {\n",
    replace: "    if (key === '') {\n",
    test: "services/controller/src/fleet/fleet-refusals.test.ts",
    only: "are written again once",
  },
  {
    row: DAMAGED,
    without: "the wait for a repair",
    file: "services/controller/src/fleet/policy-serving.ts",
    find: "this.#repair.isRunning(key) ? undefined : ",
    replace: "",
    test: "services/controller/src/fleet/fleet-refusals.test.ts",
    only: "wait while they are being written again",
  },
  {
    row: DAMAGED,
    without: "the digest of what goes into the store",
    file: "python-trainer/src/whetstone_store/upload.py",
    find: "    if digest != expected:\n",
    replace: "    if False:\n",
    test: STORE,
    only: "a_file_that_is_damaged",
  },
  {
    row: FAILING,
    without: "the patience",
    file: "python-trainer/src/whetstone_trainer/weights/store_waits.py",
    find: "            if is_damage(error):\n",
    replace: "            if True:\n",
    test: AWAY,
    only: "full_bucket",
  },
  {
    row: FAILING,
    without: "the parts of an upload that failed, which go",
    file: "python-trainer/src/whetstone_store/upload.py",
    find: "            client.abort_multipart_upload(**upload)\n",
    replace: "            pass\n",
    test: STORE,
    only: "what_is_stopped",
  },
  {
    row: FAILING,
    without: "what a trainer says that starts meanwhile",
    file: "services/controller/src/loop/trainer/trainer-client.ts",
    find: '"DiskFull", "ObjectStoreFull", "ObjectStoreFailing", RANK_LOST',
    replace: '"DiskFull", RANK_LOST',
    test: "services/controller/src/loop/trainer/trainer-client.test.ts",
    only: "ObjectStoreFull",
  },
  {
    row: FAILING,
    without: "the words of the store in what an engine says",
    file: "python-trainer/src/whetstone_store/store.py",
    find: '        return ": ".join(one[1] for one in found if one) or answer\n',
    replace: "        return answer\n",
    test: ENGINE,
    only: "a_version_that_is_gone",
  },
  {
    row: "Two trainers wrote to one run in an object store",
    without: "the look at who writes",
    file: RUN,
    find: '        if held.get("writer") != self._writer:\n',
    replace: "        if False:\n",
    test: AWAY,
    only: "who_lost_the_run",
  },
  {
    row: DELETED,
    without: "the status that says so, and has it tried again",
    file: "services/controller/src/jobs/deletion/purge-job.ts",
    find: "      if (stored.uid === uid && stored.status) Object.assign(stored.status, { ...DELETING, message: words });\n",
    replace: "",
    test: "services/controller/src/jobs/deletion/stored-run-deletion.test.ts",
    only: "is said to be incomplete",
  },
  {
    row: DELETED,
    without: "the end of a copy that is being made",
    file: "python-trainer/src/whetstone_trainer/service/state.py",
    find: "            await asyncio.to_thread(run.end_copies)\n",
    replace: "",
    test: DELETION,
    only: "a_copy_that_is_being_made",
  },
  {
    row: FETCHED,
    without: "the digest of what arrived",
    file: OWN_DATA,
    find: "        if sha256.hexdigest() != file.sha256:\n",
    replace: "        if False:\n",
    test: OWN,
    only: "what_cannot_be_had",
  },
  {
    row: FETCHED,
    without: "the patience",
    file: OWN_DATA,
    find: "            if time.monotonic() > until:\n",
    replace: "            if True:\n",
    test: OWN,
    only: "a_transfer_that_breaks",
  },
];
