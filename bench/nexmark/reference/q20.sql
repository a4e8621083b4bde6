SELECT b.*, a.* EXCLUDE (id)
FROM bid AS b JOIN auction AS a ON b.auction = a.id
WHERE a.category = 10
