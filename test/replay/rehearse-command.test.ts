/** `dramatis rehearse --from`: old runs as a check of the code of today. */
import t from 'tap'
import { logged, rehearsed } from './shop-logs.ts'

t.test('all runs of a log are played, and are the same with the same code', async (t) => {
  const log = await logged(t, { one: 'yes', two: 'no', three: 'yes' })
  const { code, stdout, stderr } = await rehearsed(['--from', 'all', '--log', log])
  t.equal(stderr, '')
  t.equal(stdout, '3 runs\n\nsame        3\ndifferent   0\nnot played  0\n')
  t.equal(code, 0)
})

t.test('with changed code the differences of each run are told, and the exit code is 1', async (t) => {
  const log = await logged(t, { one: 'yes', two: 'no' })
  const { code, stdout } = await rehearsed(['--from', 'all', '--log', log], { lazy: true })
  t.equal(code, 1)
  t.match(stdout, /^2 runs\n\nsame {8}0\ndifferent {3}2\n/)
  t.match(stdout, /\none: 2 differences\n {2}then: finished: green tea for .*\n {2}now: {2}finished: green tea/)
  t.match(stdout, /\n {2}- what ann gives the tool "price" has changed in weight: it was 9, and is 0\n/)
  t.match(stdout, /\n {2}- ann no longer uses the tool "weigh"\n/)
  t.match(
    stdout,
    /\ntwo: 2 differences\n {2}then: failed: AGENT_FAILED: .*is not sold\n {2}now: {2}failed: AGENT_FAILED/,
  )
  t.match(stdout, /\nPlay the first of them alone:\n {2}npx dramatis rehearse \S+shop-team.js --from one --log \S+\n$/)
  const again = await rehearsed(['--from', 'all', '--log', log], { lazy: true })
  t.equal(again.stdout, stdout, 'it is the same each time')
})

t.test('one run is shown with its diagram', async (t) => {
  const log = await logged(t, { one: 'yes', two: 'no' })
  const same = await rehearsed(['--from', 'two', '--log', log])
  t.match(same, { code: 0, stderr: /a run failed.*tea for two is not sold/ }) // what the team logs
  t.match(
    same.stdout,
    /^sequenceDiagram\n[\s\S]*\n\ntwo: the same as then\n {2}then: failed: .*\n {2}now: {2}failed: .*\n$/,
  )
  const other = await rehearsed(['--from', 'two', '--log', log], { ending: '!' })
  t.match(other, { code: 0 }, 'it never came to that')
  const changed = await rehearsed(['--from', 'one', '--log', log], { ending: '!' })
  t.match(changed, { code: 1, stdout: /the result of the run has changed in content: it was ".*", and is ".*!"/ })
})
