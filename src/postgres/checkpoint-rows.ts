/**
 * Checkpoints of a shard's log. Each piece is a numbered block in a row of its own; the row of the shard names the
 * checkpoint that counts, so it is changed by the owner alone, and in one statement.
 */
import { randomUUID } from 'node:crypto'
import { encodeBlock, readBlock } from '../runtime/store/block-format.ts'
import type { Checkpoint, Position } from '../runtime/store/log-files.ts'
import { LogLostError } from '../shared/errors.ts'

const PIECES_A_READ = 8

const INSERT = `insert into dramatis.checkpoint (cluster, shard, made, n, bytes) values ($1, $2, $3, $4, $5)
  on conflict do nothing`

/** Pieces that a failover has lost are missing for good: then it is not shown. */
const SHOW = `with shown as (
    update dramatis.shard set checkpoint = $3, checkpoint_at = $4
    where cluster = $1 and shard = $2 and claim = $6
      and (select count(*) from dramatis.checkpoint where cluster = $1 and shard = $2 and made = $3) = $5
    returning shard)
  delete from dramatis.checkpoint c using shown where c.cluster = $1 and c.shard = $2 and c.made <> $3`

const IS_SHOWN = 'select from dramatis.shard where cluster = $1 and shard = $2 and checkpoint = $3'

const PIECES = `select n, bytes from dramatis.checkpoint where cluster = $1 and shard = $2 and made = $3 and n >= $4
  order by n limit ${PIECES_A_READ}`

type Ask = <Row extends object>(text: string, values: readonly unknown[]) => Promise<{ rows: Row[] }>

/** A shard as its owner has it, and how it asks what may be asked again. */
export interface Owner {
  readonly key: readonly [cluster: string, shard: number]
  readonly claim: string
  readonly ask: Ask
}

export async function writeCheckpoint(
  { key, claim, ask }: Owner,
  position: Position,
  pieces: AsyncIterable<Uint8Array>,
): Promise<Checkpoint> {
  const made = randomUUID()
  let count = 0
  for await (const entries of pieces) {
    if (entries.byteLength === 0) continue
    const bytes = encodeBlock({ firstSeq: count, lastSeq: count, carried: false, runs: [], entries }, 0, 0, 0)
    await ask(INSERT, [...key, made, count, bytes])
    count += 1
  }
  await ask(SHOW, [...key, made, position, count, claim])
  if ((await ask(IS_SHOWN, [...key, made])).rows.length === 0)
    throw new LogLostError('the shard was taken by another process, or a failover has lost a part of it', {})
  return checkpointAt(ask, key, made, position)
}

/** The checkpoint that the row of a shard names. */
export function checkpointAt(ask: Ask, key: Owner['key'], made: string, position: Position): Checkpoint {
  return {
    position,
    async *read() {
      for (let next = 0, isLast = false; !isLast; ) {
        const { rows } = await ask<{ n: number; bytes: Buffer }>(PIECES, [...key, made, next])
        for (const { n, bytes } of rows) {
          const block = readBlock(bytes, 0)
          if (n !== next || !block) throw new Error(`its piece ${next} is damaged, or gone`)
          next += 1
          yield block.entries
        }
        isLast = rows.length < PIECES_A_READ
        if (next === 0) throw new Error('its pieces are gone')
      }
    },
  }
}
