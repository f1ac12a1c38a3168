import t from 'tap'
import { Board } from '../../src/blackboard/board.ts'

function startBoard() {
  const errors: unknown[] = []
  const board = new Board({ onCallbackError: (error, entry) => errors.push([entry.key, error]) })
  const write = (key: string) => board.write('ann', key, null, 'fact', {}, 0)
  return { board, write, errors }
}

t.test('a subscriber is told of each matching write before the write returns', async (t) => {
  const { board, write } = startBoard()
  const seen: string[] = []
  board.subscribe('finding.*', ({ key, version }) => seen.push(`${key} v${version}`))
  write('finding.1')
  t.same(seen, ['finding.1 v1'])
  write('other')
  write('finding.1')
  t.same(seen, ['finding.1 v1', 'finding.1 v2'])
})

t.test('a subscriber is not told of what was there before', async (t) => {
  const { board, write } = startBoard()
  write('a')
  board.subscribe('**', () => t.fail('called'))
})

t.test('a subscription that has ended is not called', async (t) => {
  const { board, write } = startBoard()
  const stop = board.subscribe('**', () => t.fail('called'))
  stop()
  stop()
  write('a')
})

t.test('ending one subscription leaves another of the same callback', async (t) => {
  const { board, write } = startBoard()
  let calls = 0
  const callback = () => void calls++
  const stop = board.subscribe('**', callback)
  board.subscribe('**', callback)
  stop()
  write('a')
  t.equal(calls, 1)
})

t.test('a bad pattern is refused when it is subscribed to', async (t) => {
  t.throws(() => startBoard().board.subscribe('a..b', () => {}), { code: 'MESSAGE_REJECTED' })
})

t.test('a callback that throws stops neither the write nor the others', async (t) => {
  const { board, write, errors } = startBoard()
  const seen: string[] = []
  board.subscribe('**', () => {
    throw new Error('broken')
  })
  board.subscribe('**', ({ key }) => seen.push(key))
  write('a')
  t.equal(board.read('a')?.version, 1)
  t.same(seen, ['a'])
  t.match(errors, [['a', { message: 'broken' }]])
})

t.test('a callback whose promise rejects is reported like one that throws', async (t) => {
  const { board, write, errors } = startBoard()
  board.subscribe('**', async () => {
    throw new Error('broken later')
  })
  write('a')
  await new Promise(setImmediate)
  t.match(errors, [['a', { message: 'broken later' }]])
})

t.test('all see the same order, also when a callback writes', async (t) => {
  const { board, write } = startBoard()
  const seen: string[] = []
  board.subscribe('**', ({ key }) => {
    seen.push(`first: ${key}`)
    if (key === 'a') write('b')
  })
  board.subscribe('**', ({ key }) => seen.push(`second: ${key}`))
  write('a')
  t.same(seen, ['first: a', 'second: a', 'first: b', 'second: b'])
})

t.test('a callback that writes is not called again before it has returned', async (t) => {
  const { board, write } = startBoard()
  const steps: string[] = []
  board.subscribe('**', ({ key }) => {
    steps.push(`begins ${key}`)
    if (key === 'a') write('b')
    steps.push(`ends ${key}`)
  })
  write('a')
  t.same(steps, ['begins a', 'ends a', 'begins b', 'ends b'])
})

t.test('who subscribes in a callback is told of later writes only', async (t) => {
  const { board, write } = startBoard()
  const seen: string[] = []
  board.once('a', () => {
    write('b')
    board.subscribe('**', ({ key }) => seen.push(key))
    write('c')
  })
  write('a')
  t.same(seen, ['c'])
})

t.test('a subscription that another callback ends is not called any more', async (t) => {
  const { board, write } = startBoard()
  board.subscribe('**', () => stop())
  const stop = board.subscribe('**', () => t.fail('called'))
  write('a')
})

t.test('once calls back at once when the key is there', async (t) => {
  const { board, write } = startBoard()
  write('a')
  let version = 0
  board.once('a', (entry) => {
    version = entry.version
  })
  t.equal(version, 1)
})

t.test('once waits for the first write of exactly that key and then ends', async (t) => {
  const { board, write } = startBoard()
  const seen: string[] = []
  board.once('a', ({ key, version }) => seen.push(`${key} v${version}`))
  for (const key of ['a.b', 'b', 'a', 'a']) write(key)
  t.same(seen, ['a v1'])
})

t.test('once ends also when its callback writes the key again', async (t) => {
  const { board, write } = startBoard()
  let calls = 0
  board.once('a', () => {
    calls++
    write('a')
  })
  write('a')
  t.equal(calls, 1)
})

t.test('once that was given up is not called', async (t) => {
  const { board, write } = startBoard()
  board.once('a', () => t.fail('called'))()
  write('a')
})

t.test('a callback of once that throws is reported, also when the key is there', async (t) => {
  const { board, write, errors } = startBoard()
  const broken = () => {
    throw new Error('broken')
  }
  board.once('a', broken)
  write('a')
  board.once('a', broken)
  t.equal(errors.length, 2)
})

t.test('once refuses a key that no entry can have', async (t) => {
  t.throws(() => startBoard().board.once('', () => {}), { code: 'MESSAGE_REJECTED', details: { path: 'key' } })
})
