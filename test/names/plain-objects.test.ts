/**
 * An agent, a model or a field of a stranger's JSON may be called "constructor" or "__proto__". So no code looks into a
 * plain object by a name that is not known when it is compiled: `own` reads a field that the object itself has,
 * `Object.fromEntries` and Map write one, and `Reflect.get` says that what is inherited is wanted too.
 */
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import t from 'tap'
import { type Node, SyntaxKind } from 'typescript/unstable/ast'
import { isBinaryExpression, isElementAccessExpression } from 'typescript/unstable/ast/is'
import { API, type Type, TypeFlags } from 'typescript/unstable/sync'

const root = fileURLToPath(new URL('../../../', import.meta.url)) // this runs as dist/test/names/plain-objects.test.js

// place: why it may
const EXCEPT: Record<string, string> = {
  'src/shared/values.ts: fields[name]': 'after hasOwn',
  'src/mailbox/message.ts: (value as Record<string, unknown>)[key]': 'each message goes here; for...in gave the key',
  'src/shared/checks.ts: fields[key]': 'for...in gave the key, of the options that the code knows',
}

const CLOSED =
  TypeFlags.StringLiteral |
  TypeFlags.NumberLike |
  TypeFlags.ESSymbolLike |
  TypeFlags.EnumLike |
  TypeFlags.Index | // keyof: the compiler knows that the object has it
  TypeFlags.TypeParameter |
  TypeFlags.IndexedAccess

const isOpen = (type: Type | undefined): boolean =>
  type?.isUnionType() ? type.getTypes().some(isOpen) : type === undefined || (type.flags & CLOSED) === 0

/** Returns the keys of `object[key]` and `key in object` below a node. */
function keysIn(node: Node): Node[] {
  const keys: Node[] = []
  const visit = (inside: Node): undefined => {
    if (isElementAccessExpression(inside)) keys.push(inside.argumentExpression)
    if (isBinaryExpression(inside) && inside.operatorToken.kind === SyntaxKind.InKeyword) keys.push(inside.left)
    inside.forEachChild(visit)
  }
  visit(node)
  return keys.filter(({ kind }) => kind !== SyntaxKind.PrivateIdentifier)
}

/** Returns the places of a program where an open name is looked up, as `file: expression`. */
function lookupsOf(t: Test, config: string, folder: string): string[] {
  const api = new API({ cwd: root })
  t.teardown(() => api.close())
  const [project] = api.updateSnapshot({ openProject: `${root}${config}` }).getProjects()
  const { program, checker } = project!
  const files = program.getSourceFileNames().filter((file) => file.startsWith(`${root}${folder}/`))
  t.ok(files.length > 0)
  return files.flatMap((file) => {
    const keys = keysIn(program.getSourceFile(file)!)
    const types = checker.getTypeAtLocation(keys)
    const open = keys.filter((_key, at) => isOpen(types[at]))
    return open.map((key) => `${file.slice(root.length)}: ${key.parent.getText()}`)
  })
}

t.test('no name that is unknown to the compiler is looked up in a plain object', async (t) => {
  const found = lookupsOf(t, 'tsconfig.json', 'src')
  t.same([...new Set(found)].sort(), Object.keys(EXCEPT).sort())
})

t.test('nor in the page of the dashboard', async (t) => {
  const page = 'src/service/page'
  t.same(lookupsOf(t, `${page}/tsconfig.json`, page), [])
})
