/** An owner in a process of its own that freezes, loses its shard, and wakes. It knows no engine. */
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import type { ClusterStore } from '../../src/runtime/cluster/cluster-store.ts'
import { appendAll, entries, textOf } from '../../src/runtime/store/contract.ts'

/**
 * Asserts that nothing is written behind its successor, and that each owner finds out, whether it writes or not. `store`
 * is another process's, of the same cluster.
 */
export async function freezeOwners(
  t: Test,
  store: ClusterStore,
  url: string,
  name: string,
  rounds: number,
): Promise<void> {
  await store.join({ id: randomUUID() }, () => {})
  const written: number[] = []
  for (let round = 0; round < rounds; round++) {
    const file = fileURLToPath(new URL('./owner.js', import.meta.url))
    const owner = spawn(process.execPath, [file, url, name, round % 2 === 1 ? 'idle' : 'writes'])
    t.teardown(() => owner.kill('SIGKILL'))
    const lines = createInterface({ input: owner.stdout })[Symbol.asyncIterator]()
    for (let i = 0; i < 20; i++) written.push(Number((await lines.next()).value))
    owner.kill('SIGSTOP')
    while (!(await store.view()).free.includes(0))
      await once(owner.stdout, 'data', { signal: AbortSignal.timeout(50) }).catch(() => {})
    const log = store.log(0, () => {})
    const { lastSeq } = await log.open()
    await appendAll(log, lastSeq + 1, lastSeq + 10)
    owner.kill('SIGCONT')
    for await (const line of { [Symbol.asyncIterator]: () => lines }) if (line !== 'lost') written.push(Number(line))
    t.ok(lastSeq >= Math.max(...written), 'acknowledged behind the claim')
    t.same(await textOf(log), entries(1, lastSeq + 10))
    await log.close()
  }
  await store.leave()
}
