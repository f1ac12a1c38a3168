/** A run as one HTML page: all of it, and nothing that runs. */
import t from 'tap'
import { defineAgent } from '../../src/index.ts'
import { HOSTILE } from '../dashboard/hostile-texts.ts'
import { stage } from './http/stage.ts'

const talkative = defineAgent({
  async receive({ content }, context) {
    if (content === 'fail') throw new Error(HOSTILE.join(' '))
    await context.blackboard!.write('entry.one', 1, 'number')
    return HOSTILE.join('\n\n')
  },
})

t.test('texts of agents are text in it: no element, attribute or link is made of them', async (t) => {
  const { send } = stage(t, talkative)
  const query = HOSTILE.join(' ')
  for (const [asked, status] of [
    [query, 'finished'],
    ['fail', 'failed'],
  ]) {
    const { headers } = await send('POST', '/api/tasks', {
      body: { query: asked },
      headers: { prefer: 'respond-async' },
    })
    const path = headers.get('location')!
    await send('GET', `${path}?wait=30`)
    const { body: page, headers: of } = await send('GET', `${path}/trace?as=html`)
    t.equal(of.get('content-type'), 'text/html; charset=utf-8')
    t.match(of.get('content-security-policy'), /^default-src 'none'; style-src 'unsafe-inline'; sandbox$/)
    const elements = new Set([...page.matchAll(/<([a-z]\w*)/gi)].map(([, name]) => name!.toLowerCase()))
    const own =
      'html head meta title style body main h1 h2 dl div dt dd strong code section pre p svg rect text line table'
    const made = `${own} thead tbody tr th td details summary small`.split(' ')
    t.same(
      [...elements].filter((name) => !made.includes(name)),
      [],
    )
    t.notMatch(page, /<[^>]*\s(?:on\w+|href|src|action)=/i)
    for (const unseen of ['\u202e', '\u2066', '\u200b', '\u0000']) t.notOk(page.includes(unseen))
    t.match(page, '&lt;img src=x onerror=alert(1)&gt;')
    t.match(page, `<strong class="${status}">`)
  }
})

t.test('it has the query, the answer, the agents with their figures, and each message', async (t) => {
  const { send } = stage(t)
  const { body: task } = await send('POST', '/api/tasks', { body: { query: 'Is it raining?' } })
  const { body: page } = await send('GET', `/api/tasks/${task.id}/trace?as=html`)
  t.match(page, '<h1>Is it raining?</h1>')
  t.match(page, '<section><h2>Answer</h2><pre>heard: Is it raining?</pre></section>')
  t.match(page, '<th scope="row">worker</th><td>1</td><td>0</td>')
  t.match(page, /<td>request<\/td><td>strategy → worker<\/td><td><details><summary>Is it raining\? /)
  t.match(page, /<td>response<\/td><td>worker → strategy<\/td><td><details><summary>heard: Is it raining\? /)
  t.match(page, /<rect class="turn"/)
})
