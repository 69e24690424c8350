-- Quarto's constructs for plain pandoc: callouts, diagrams, numbered figures and tables, references.
-- The metadata keys word-fig, word-tbl, word-note, ... hold the words of the page's language.

local meta = {}
local numbers = {}                 -- fig-x or tbl-x to its number
local counts = { fig = 0, tbl = 0 }

local function word(key)
  return pandoc.utils.stringify(meta["word-" .. key] or key)
end

local function inlines(text)
  local blocks = pandoc.read(text, "markdown").blocks
  return #blocks > 0 and blocks[1].content or pandoc.Inlines({})
end

local function raw(html)
  return pandoc.RawBlock("html", html)
end

local function escape(text)
  return (text:gsub("&", "&amp;"):gsub("<", "&lt;"):gsub(">", "&gt;"):gsub('"', "&quot;"))
end

-- Headings in a callout stay out of the table of contents, as in Quarto.
local function unlisted(blocks)
  return blocks:walk({
    Header = function(header)
      header.classes:insert("unnumbered")
      header.classes:insert("unlisted")
      return header
    end,
  })
end

local function callout(div, kind)
  local title = div.attributes.title and inlines(div.attributes.title)
  local body = div.content
  if not title and #body > 0 and body[1].t == "Header" then
    title = body[1].content
    body = pandoc.Blocks({ table.unpack(body, 2) })
  end
  body = pandoc.Div(unlisted(body), pandoc.Attr("", { "callout-body" }))
  local simple = div.attributes.appearance == "simple" or div.attributes.appearance == "minimal"
  local name = "callout callout-" .. kind
  for _, class in ipairs(div.classes) do
    if not class:match("^callout%-") then name = name .. " " .. class end
  end
  if div.identifier ~= "" then name = name .. '" id="' .. div.identifier end
  if not title and not simple then title = inlines(word(kind)) end
  if div.attributes.collapse == "true" or div.attributes.collapse == "false" then
    local open = div.attributes.collapse == "false" and " open" or ""
    return {
      raw('<details class="' .. name .. '"' .. open .. '><summary class="callout-title">'),
      pandoc.Plain(title or inlines(word(kind))),
      raw("</summary>"), body, raw("</details>"),
    }
  end
  local out = { raw('<div class="' .. name .. '">') }
  if title then
    table.insert(out, pandoc.Div({ pandoc.Plain(title) }, pandoc.Attr("", { "callout-title" })))
  end
  table.insert(out, body)
  table.insert(out, raw("</div>"))
  return out
end

-- ::: {#fig-x} ... caption :::   The last paragraph is the caption.
local function float(div)
  local body = pandoc.Blocks(div.content)
  local last = body[#body]
  if not last or (last.t ~= "Para" and last.t ~= "Plain") then return nil end
  body:remove(#body)
  local caption = pandoc.Blocks({ pandoc.Plain(last.content) })
  if div.identifier:match("^tbl%-") and #body == 1 and body[1].t == "Table" then
    body[1].identifier = div.identifier
    body[1].caption = { long = caption }
    return body[1]
  end
  return pandoc.Figure(body, { long = caption }, pandoc.Attr(div.identifier))
end

local function pagination(div)
  return { raw('<nav class="course-pagination" aria-label="' .. escape(word("pagination")) .. '">'),
    pandoc.Div(div.content), raw("</nav>") }
end

local function convert_div(div)
  for _, class in ipairs(div.classes) do
    local kind = class:match("^callout%-(%a+)$")
    if kind then return callout(div, kind) end
    if class == "course-pagination" then return pagination(div) end
  end
  if div.identifier:match("^fig%-") or div.identifier:match("^tbl%-") then return float(div) end
end

local function diagram(block)
  if not block.classes:includes("mermaid") then return nil end
  local options, lines = {}, {}
  for line in (block.text .. "\n"):gmatch("(.-)\n") do
    local key, value = line:match("^%s*%%%%|%s*([%w-]+):%s*(.-)%s*$")
    if key then
      options[key] = value:gsub('^"(.*)"$', "%1"):gsub("^'(.*)'$", "%1")
    else
      table.insert(lines, line)
    end
  end
  local caption = options["fig-cap"]
  local alt = options["fig-alt"] or caption or word("diagram")
  local html = raw('<pre class="mermaid" role="img" tabindex="0" aria-label="' .. escape(alt) .. '">'
    .. escape(table.concat(lines, "\n")) .. "</pre>")
  if not caption then return html end
  return pandoc.Figure({ html }, { long = { pandoc.Plain(inlines(caption)) } },
    pandoc.Attr(options.label or "", { "diagram" }))
end

local function numbered(block, kind)
  if not block.identifier:match("^" .. kind .. "%-") then return end
  counts[kind] = counts[kind] + 1
  numbers[block.identifier] = counts[kind]
  local text = word(kind) .. " " .. counts[kind] .. (word("lang") == "zh" and "：" or ": ")
  local first = block.caption.long[1]
  local label = pandoc.Span({ pandoc.Str(text) }, pandoc.Attr("", { "float-number" }))
  if first then
    first.content:insert(1, label)
  else
    block.caption = { long = { pandoc.Plain({ label }) } }
  end
end

local function reference(cite)
  local out = pandoc.Inlines({})
  for _, citation in ipairs(cite.citations) do
    local kind = citation.id:match("^(%a+)%-")
    if kind ~= "fig" and kind ~= "tbl" then return nil end
    local number = numbers[citation.id]
    if not number then
      io.stderr:write("@" .. citation.id .. " refers to nothing on this page\n")
      os.exit(3)
    end
    if #out > 0 then out:insert(pandoc.Str(", ")) end
    out:insert(pandoc.Link({ pandoc.Str(word(kind) .. " " .. number) }, "#" .. citation.id))
  end
  return out
end

return {
  { Meta = function(m) meta = m end },
  { Div = convert_div, CodeBlock = diagram },
  {
    traverse = "topdown",
    Figure = function(figure) numbered(figure, "fig") return figure end,
    Table = function(tbl)
      numbered(tbl, "tbl")
      -- Pandoc fixes the widths of a pipe table with long lines by its dashes; the browser knows better.
      for index, spec in ipairs(tbl.colspecs) do tbl.colspecs[index] = { spec[1] } end
      return pandoc.Div({ tbl }, pandoc.Attr("", { "table-wrap" }, { tabindex = "0" })), false
    end,
  },
  { Cite = reference },
}
