import t from 'tap'
import { listenForInterrupt } from '../../src/service/shared/failure.ts'
import { unlessAborted } from '../../src/shared/on-abort.ts'

t.test('the first Ctrl-C aborts and says so, the second leaves', async (t) => {
  const said: string[] = []
  const left: number[] = []
  const { signal, stop } = listenForInterrupt(
    (text) => said.push(text),
    (code) => left.push(code),
  )
  process.emit('SIGINT')
  t.ok(signal.aborted)
  t.match(said, [/Ctrl-C again leaves at once/])
  t.strictSame(left, [])
  process.emit('SIGINT')
  t.strictSame(left, [130])
  stop()
})

t.test('after stop Ctrl-C has its usual meaning', async (t) => {
  const before = process.listenerCount('SIGINT')
  const { stop } = listenForInterrupt(() => {})
  t.equal(process.listenerCount('SIGINT'), before + 1)
  stop()
  t.equal(process.listenerCount('SIGINT'), before)
})

t.test('work that nobody waits for any more is left alone', async (t) => {
  const controller = new AbortController()
  const waiting = unlessAborted(controller.signal, new Promise(() => {}))
  controller.abort(new Error('enough'))
  await t.rejects(waiting, { message: 'enough' })
  await t.rejects(unlessAborted(controller.signal, Promise.reject(new Error('too late'))))
  t.equal(await unlessAborted(new AbortController().signal, Promise.resolve('done')), 'done')
})
