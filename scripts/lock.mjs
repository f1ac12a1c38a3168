/** One holder at a time among processes, by a directory that only one of them can put in place. */
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const heartbeatMs = 2_000
const staleMs = 20_000 // no heartbeat for so long: its process id may belong to someone else by now

/** Runs `task` while holding the lock at `path`; waits for whoever holds it, unless they are gone. */
export async function withLock(path, say, task) {
  mkdirSync(dirname(path), { recursive: true })
  for (let told = false; !take(path); ) {
    const pid = holder(path)
    if (pid !== undefined && isStale(path, pid)) remove(path, pid)
    else {
      if (!told) say(`Waiting for process ${pid}, which is doing the same\n`)
      told = true
      await sleep(200)
    }
  }
  const release = () => remove(path, process.pid)
  const beat = setInterval(() => {
    if (holder(path) === process.pid) utimesSync(path, new Date(), new Date())
  }, heartbeatMs)
  process.on('exit', release)
  try {
    return await task()
  } finally {
    clearInterval(beat)
    process.off('exit', release)
    release()
  }
}

/** The directory comes into place with its owner's id in it, so nobody ever sees a lock without an owner. */
function take(path) {
  const mine = `${path}.${process.pid}`
  rmSync(mine, { recursive: true, force: true })
  mkdirSync(mine)
  writeFileSync(join(mine, 'pid'), String(process.pid))
  try {
    renameSync(mine, path)
    return true
  } catch (error) {
    if (!['ENOTEMPTY', 'EEXIST', 'EPERM'].includes(error.code)) throw error
    rmSync(mine, { recursive: true, force: true })
    return false
  }
}

/** Takes the lock of `pid` away in one move, and puts it back if another process got it meanwhile. */
function remove(path, pid) {
  const aside = `${path}.aside.${process.pid}`
  try {
    renameSync(path, aside)
    if (holder(aside) !== pid) return renameSync(aside, path)
  } catch (error) {
    if (error.code !== 'ENOENT') throw error
  }
  rmSync(aside, { recursive: true, force: true })
}

function holder(path) {
  try {
    return Number(readFileSync(join(path, 'pid'), 'utf8'))
  } catch {
    return undefined // released just now
  }
}

function isStale(path, pid) {
  try {
    process.kill(pid, 0)
    return Date.now() - statSync(path).mtimeMs > staleMs
  } catch (error) {
    return error.code === 'ESRCH'
  }
}
