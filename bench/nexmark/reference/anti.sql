SELECT seller, count(*)
FROM auction AS a ANTI JOIN (SELECT seller FROM auction JOIN bid ON id = auction) AS s USING (seller)
GROUP BY seller
