/**
 * Lets one team at a time change a file, among all processes of a machine. The lock is a socket, which the operating
 * system frees when its process dies. Who waits is connected to it until it is free.
 */
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { basename, dirname } from 'node:path'
import { hasCode, realFiles } from './log-files.ts'
import { addressOf, removeStale } from './log-lock.ts'

/** Time after which who holds a file is taken to be stuck, in ms. */
const STUCK_MS = 10_000

/** Runs `act` with the file locked. Rejects if another process holds it for ten seconds without an end. */
export async function whileLocked<T>(path: string, act: () => Promise<T>): Promise<T> {
  const address = addressOf('file', `${await realFiles.folder(dirname(path))}/${basename(path)}`)
  const free = await taken(address)
  try {
    return await act()
  } finally {
    await free()
  }
}

async function taken(address: string): Promise<() => Promise<void>> {
  for (;;) {
    const waiting = new Set<Socket>()
    const server = createServer((socket) => {
      waiting.add(socket)
      socket.on('error', () => {}).on('close', () => waiting.delete(socket)) // it has waited long enough
    })
    try {
      server.listen({ path: address, exclusive: true }) // not shared with other workers of a cluster
      await once(server, 'listening')
    } catch (error) {
      if (!hasCode(error, 'EADDRINUSE')) throw error
      if (!(await removeStale(address))) await freed(address)
      continue
    }
    return async () => {
      const closed = once(server, 'close')
      server.close()
      for (const socket of waiting) socket.destroy()
      await closed
    }
  }
}

/** Resolves when who holds the lock lets go of it, or has done so. */
async function freed(address: string): Promise<void> {
  let isStuck = false
  const socket = connect(address).setTimeout(STUCK_MS, () => {
    isStuck = true
    socket.destroy()
  })
  try {
    await once(socket.resume(), 'close')
  } catch {
    // Nobody listens there any more.
  }
  if (isStuck) throw new Error(`another process has held it for ${STUCK_MS} ms`)
}
