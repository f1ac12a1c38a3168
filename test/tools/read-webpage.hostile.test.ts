/** No URL of the list gets read_webpage to what is not public: by itself, by a redirect, by a name that changes. */
import t from 'tap'
import { ToolFailedError, ToolInputError } from '../../src/shared/errors.ts'
import { pageReader } from '../../src/tools/read-webpage.ts'
import { call } from './calls.ts'
import { hostileUrls } from './hostile-urls.ts'
import { serve, watchConnections } from './servers.ts'

const PUBLIC = ['1.1.1.1'] // whom the list lets a parser trust
const leadsHome = async () => ['127.0.0.1']
const refused = (error: unknown) => error instanceof ToolFailedError || error instanceof ToolInputError

t.test('the list has more than 200 URLs, each once', async (t) => {
  const urls = hostileUrls.flatMap(({ urls }) => urls)
  t.ok(urls.length >= 200, `${urls.length} URLs`)
  t.equal(new Set(urls).size, urls.length)
})

for (const { source, urls } of hostileUrls) {
  t.test(`none gets out: ${source}`, async (t) => {
    const canary = await serve(t, (_request, response) => response.end('reached'))
    const opened = watchConnections(t)
    const tool = pageReader({ ports: [80, 443, canary.port] }, leadsHome)
    for (const url of urls) {
      const result = await call(tool, { url: filled(url, canary.port) }).catch((error: unknown) => error)
      t.ok(refused(result), JSON.stringify(url))
    }
    t.same(strangers(opened), [])
    t.equal(canary.connections(), 0)
  })

  t.test(`none gets out by a redirect: ${source}`, async (t) => {
    const canary = await serve(t, (_request, response) => response.end('reached'))
    let target = ''
    const door = await serve(t, (_request, response) => response.writeHead(302, { location: target }).end())
    const opened = watchConnections(t)
    const tool = pageReader({ ports: [80, 443, canary.port], allow: [`127.0.0.1:${door.port}`] }, leadsHome)
    for (const url of urls.map((url) => Buffer.from(filled(url, canary.port)).toString('latin1'))) {
      if (/[^\t\x20-\xff]/.test(url)) continue // no header can carry it
      target = url
      const result = await call(tool, { url: `${door.origin}/` }).catch((error: unknown) => error)
      t.ok(refused(result), JSON.stringify(url))
    }
    t.same(strangers(opened), [])
    t.equal(canary.connections(), 0)
  })
}

t.test('the canary hears whoever gets out, and the watch sees it', async (t) => {
  const canary = await serve(t, (_request, response) => response.end('reached'))
  const opened = watchConnections(t)
  const tool = pageReader({ allow: [`2130706433:${canary.port}`] }, leadsHome)
  t.equal(await call(tool, { url: `http://0x7f.1:${canary.port}/` }), 'reached')
  t.same(opened, ['127.0.0.1'])
  t.equal(canary.asked.length, 1)
})

t.test('a name is refused if one of its addresses is not public', async (t) => {
  const opened = watchConnections(t)
  for (const addresses of [
    ['1.1.1.1', '10.0.0.1'],
    ['::1'],
    ['2606:4700::1', 'fe80::1%eth0'],
    ['::ffff:1.1.1.1'],
    ['no address'],
  ]) {
    const tool = pageReader({}, async () => addresses)
    const error = await call(tool, { url: 'http://page.test/' }).catch((error: unknown) => error)
    t.match(error, { code: 'TOOL_FAILED', message: /^http:\/\/page\.test\/ leads to / })
    for (const address of addresses) t.notMatch(String(error), address, 'who asks does not learn the address')
  }
  t.same(opened, [])
})

t.test('the connection goes to the address that was checked, whatever the name means by then', async (t) => {
  const opened = watchConnections(t)
  const answers = [['1.1.1.1'], ['127.0.0.1'], ['169.254.169.254']]
  let asked = 0
  const tool = pageReader({}, async () => answers[asked++] ?? ['127.0.0.1'])
  await t.rejects(call(tool, { url: 'http://rebind.test/' }), { code: 'TOOL_FAILED' })
  t.same(opened, ['1.1.1.1'])
  t.equal(asked, 1)
})

t.test('a name that changes between two hops is checked again', async (t) => {
  const answers = [['127.0.0.1'], ['10.0.0.1']]
  let asked = 0
  const tool = (port: number) =>
    pageReader({ allow: [`door.test:${port}`], ports: [80] }, async () => answers[asked++]!)
  const door = await serve(t, (_request, response) => response.writeHead(307, { location: 'http://door.test/' }).end())
  const opened = watchConnections(t)
  // at port 80 the door is not allowed, so its name counts
  await t.rejects(call(tool(door.port), { url: `http://door.test:${door.port}/` }), {
    code: 'TOOL_FAILED',
    message: /leads to an address of a private network/,
  })
  t.same(opened, ['127.0.0.1'])
  t.equal(asked, 2)
})

function filled(url: string, port: number): string {
  return url.replaceAll('{port}', String(port))
}

/** Whom nobody may reach. What is on loopback goes to the canary or to the door, and they count. */
function strangers(opened: string[]): string[] {
  return opened.filter((address) => !PUBLIC.includes(address) && address !== '127.0.0.1')
}
