/** `convert`: units and formats of data, and what is none. */
import t from 'tap'
import { convertValue } from '../../src/tools/convert-value.ts'
import { Refused } from '../../src/tools/options.ts'
import { convert } from '../../src/tools/sandboxed.ts'
import { call } from './calls.ts'
import { hostileCsv, hostileJson, hostileUnits, hostileYaml, oddYaml } from './hostile-data.ts'

t.test('converts units', async (t) => {
  const cases: [value: string, from: string, to: string, result: string][] = [
    ['100', 'degC', 'degF', '212'],
    ['-40', '°F', '°C', '-40'],
    ['1', 'inch', 'cm', '2.54'],
    ['3', 'mile', 'km', '4.828032'],
    ['36', 'km/h', 'm/s', '10'],
    ['60', 'mph', 'km/h', '96.56064'],
    ['1', 'GiB', 'bytes', '1073741824'],
    ['1', 'kWh', 'J', '3600000'],
    ['2', 'm^3', 'litre', '2000'],
    ['9.81', 'm/s^2', 'cm/s^2', '981'],
    ['1e-3', 'km', 'mm', '1000'],
    [' 90 ', 'deg', 'rad', '1.5707963267949'],
    ['1', 'week', 'hours', '168'],
  ]
  for (const [value, from, to, result] of cases)
    t.equal(await convertValue({ value, from, to }), result, `${from} ${to}`)
})

t.test('converts data', async (t) => {
  const cases: [value: string, from: string, to: string, result: string][] = [
    ['a,b\n1,"x, y"\n', 'csv', 'json', JSON.stringify([{ a: '1', b: 'x, y' }], null, 2)],
    ['a\n', 'csv', 'json', '[]'],
    ['\ufeffä;b\n1', 'csv', 'yaml', '- ä;b: "1"\n'],
    ['[{"a":1,"b":null},{"b":{"c":[1]}}]', 'json', 'csv', 'a,b\n1,\n,"{\n  ""c"": [\n    1\n  ]\n}"\n'],
    ['[[1,2],["x,y",true]]', 'json', 'csv', '1,2\n"x,y",true\n'],
    ['[1,2]', 'json', 'csv', '1\n2\n'],
    ['a: 1\nb: [x, ~]\n', 'yaml', 'json', JSON.stringify({ a: 1, b: ['x', null] }, null, 2)],
    ['a: &x {b: 1}\nc: *x', 'yml', 'yaml', 'a:\n  b: 1\nc:\n  b: 1\n'],
    ['{"a":"yes","b":"1"}', 'json', 'yaml', 'a: yes\nb: "1"\n'],
    ['[1, 2]', 'json', 'json', '[\n  1,\n  2\n]'],
  ]
  for (const [value, from, to, result] of cases) t.equal(await convertValue({ value, from, to }), result, value)
})

t.test('the tool does it in a thread of its own, and says what is wrong', async (t) => {
  t.equal(await call(convert, { value: '1', from: 'inch', to: 'cm' }), '2.54')
  const wrong: [object, RegExp][] = [
    [{ value: '{"a":', from: 'json', to: 'yaml' }, /The value is no JSON: /],
    [{ value: 'a: [', from: 'yaml', to: 'json' }, /The value is no YAML: .*line 1/s],
    [{ value: 'a,b\n1', from: 'csv', to: 'json' }, /The value is no CSV: .*line 2/],
    [{ value: '1', from: 'km', to: 'kg' }, /"km" cannot become "kg": they measure different things/],
    [{ value: 'x', from: 'km', to: 'm' }, /The value "x" is no number/],
    [{ value: '1', from: 'USD', to: 'EUR' }, /"USD" is no known unit.*Money is not a unit/],
    [{ value: '1', from: 'csv', to: 'km' }, /do not go together/],
    [{ value: '{"a":1}', from: 'json', to: 'csv' }, /Only a list becomes CSV/],
    [{ value: '[{"a":1}, 2]', from: 'json', to: 'csv' }, /all objects, or none/],
    [{ value: '', from: 'json', to: 'csv' }, /./],
    [{ value: 5, from: 'km', to: 'm' }, /./],
    [{ value: 'x'.repeat(262_145), from: 'json', to: 'csv' }, /./],
  ]
  for (const [input, message] of wrong) {
    await t.rejects(call(convert, input), { code: 'TOOL_INPUT', message }, JSON.stringify(input).slice(0, 80))
  }
})

t.test('hostile documents and units are refused', async (t) => {
  const cases = [
    ...hostileYaml.map((value) => ({ value, from: 'yaml', to: 'json' })),
    ...hostileYaml.map((value) => ({ value, from: 'yaml', to: 'csv' })),
    ...hostileJson.map((value) => ({ value, from: 'json', to: 'yaml' })),
    ...hostileCsv.map((value) => ({ value, from: 'csv', to: 'json' })),
    ...hostileUnits.map((unit) => ({ value: '1', from: unit, to: 'm' })),
    ...hostileUnits.map((unit) => ({ value: '1', from: 'm', to: unit })),
    ...['', 'x', '1 m', '1+1', '0x10', '1e9999', 'NaN', 'Infinity', '1,5', '--1', '1e', '.', '１'].map((value) => ({
      value,
      from: 'km',
      to: 'm',
    })),
  ]
  t.ok(cases.length >= 300, `${cases.length} inputs`)
  const passed = []
  for (const input of cases) if (!(await isRefused(input))) passed.push(input)
  t.same(passed, [])
})

t.test('what only looks hostile is data', async (t) => {
  for (const value of oddYaml) {
    JSON.parse(await convertValue({ value, from: 'yaml', to: 'json' }))
    await convertValue({ value, from: 'yaml', to: 'yaml' })
  }
  const pollution = '[{"__proto__": {"polluted": 1}, "constructor": {"prototype": {"polluted": 1}}}]'
  t.same(JSON.parse(await convertValue({ value: pollution, from: 'json', to: 'json' })), JSON.parse(pollution))
  t.match(await convertValue({ value: pollution, from: 'json', to: 'csv' }), /^__proto__,constructor\n/)
  t.match(await convertValue({ value: '__proto__,a\nx,1', from: 'csv', to: 'json' }), /"__proto__": "x"/)
  t.equal(Reflect.get({}, 'polluted'), undefined)
})

t.test('a result that is too large is refused', async (t) => {
  const value = `a: &a "${'x'.repeat(200_000)}"\nb: [*a, *a, *a, *a, *a]`
  await t.rejects(convertValue({ value, from: 'yaml', to: 'json' }), { message: /at most 1000000 are possible/ })
})

async function isRefused(input: { value: string; from: string; to: string }): Promise<boolean> {
  try {
    await convertValue(input)
    return false
  } catch (error) {
    return error instanceof Refused
  }
}
