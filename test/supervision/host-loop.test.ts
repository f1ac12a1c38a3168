import t from 'tap'
import { HostLoop } from '../../src/runtime/host/core.ts'

t.test('a look that throws ends neither the loop nor leaves what it had not read', async (t) => {
  const deferred: (() => void)[] = []
  let looks = 0
  const look = () => {
    looks += 1
    if (looks === 1) throw new Error('broken')
    return false
  }
  const loop = new HostLoop({
    clock: { defer: (task) => deferred.push(task) },
    look,
    journal: { isTelling: false },
  })
  t.throws(() => loop.kick(), { message: 'broken' })
  t.equal(deferred.length, 1, 'it looks again in a later turn')
  deferred.shift()?.()
  t.equal(looks, 2)
  t.equal(deferred.length, 0)
  loop.kick()
  t.equal(looks, 3)
})
