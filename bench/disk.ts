/** What one flush of the disk takes below a folder: figures of a durable log are ratios to it. */
import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { percentile } from './statistics.ts'

const FLUSHES = 500
const BYTES = 512

/** Median of a write of 512 bytes and its `fdatasync`, in us. */
export async function flushUs(folder: string): Promise<number> {
  const path = join(folder, 'flush')
  const file = await open(path, 'wx')
  const bytes = Buffer.alloc(BYTES, 1)
  const took: number[] = []
  try {
    for (let i = 0; i < FLUSHES; i++) {
      const startedAt = performance.now()
      await file.write(bytes, 0, BYTES, i * BYTES)
      await file.datasync()
      took.push((performance.now() - startedAt) * 1_000)
    }
  } finally {
    await file.close()
    await rm(path)
  }
  return percentile(took, 0.5)
}
